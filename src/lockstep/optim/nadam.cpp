#include <lockstep/optim/nadam.hpp>

#include <cmath>
#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/tensor/kernels/nadam.hpp>

namespace lockstep::optim {
namespace {

const NAdamOptions& validated(const NAdamOptions& options) {
  expect_below_one("NAdam", "first beta", options.betas[0]);
  expect_below_one("NAdam", "second beta", options.betas[1]);
  expect_not_negative("NAdam", "eps", options.eps);
  expect_not_negative("NAdam", "weight_decay", options.weight_decay);
  expect_not_negative("NAdam", "momentum_decay", options.momentum_decay);
  return options;
}

}  // namespace

NAdam::NAdam(std::vector<nn::NamedParameter> parameters, const NAdamOptions& options,
             const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .slots = {"exp_avg", "exp_avg_sq"}},
                groups),
      options_(validated(options)) {}

void NAdam::update(const Run& run) {
  nadam_update(run.parameter, run.gradient, run.slots[0], run.slots[1],
               {.lr = run.lr,
                .beta1 = options_.betas[0],
                .beta2 = options_.betas[1],
                .eps = options_.eps,
                .weight_decay = run.weight_decay,
                .decoupled = options_.decoupled_weight_decay,
                .mu = mu(run.step),
                .next_mu = mu(run.step + 1),
                .mu_product = mu_product(run.step),
                .step = run.step,
                .gradient_factor = run.gradient_factor});
}

double NAdam::mu(std::int64_t step) const {
  const double decay = std::pow(0.96, static_cast<double>(step) * options_.momentum_decay);
  return options_.betas[0] * (1.0 - 0.5 * decay);
}

double NAdam::mu_product(std::int64_t step) {
  if (step < multiplied_) {
    multiplied_ = 0;
    product_ = 1.0;
  }
  while (multiplied_ < step) product_ *= mu(++multiplied_);
  return product_;
}

}  // namespace lockstep::optim
