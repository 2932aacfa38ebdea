#include <lockstep/optim/nadam.hpp>

#include <cmath>
#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/tensor/kernels/optim/nadam.hpp>

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

void declare(DeckTable& table, NAdamOptions& options) {
  declare_lr(table, options.lr);
  declare_betas(table, options.betas);
  declare_eps(table, options.eps);
  declare_weight_decay(table, options.weight_decay, either_decay);
  table.key("momentum_decay", options.momentum_decay,
            {.doc = "how fast its momentum rises to the first beta", .min = 0.0});
  declare_decoupled_weight_decay(table, options.decoupled_weight_decay);
}

NAdam::NAdam(std::vector<nn::NamedParameter> parameters, const NAdamOptions& options,
             const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .slots = {"exp_avg", "exp_avg_sq"}},
                groups),
      products_(groups.size() + 1),
      options_("NAdam", options, groups, validated) {}

void NAdam::update(const Run& run) {
  const NAdamOptions& options = options_[run.group];
  nadam_update(run.parameter, run.gradient, run.slots[0], run.slots[1],
               {.lr = run.lr,
                .beta1 = options.betas[0],
                .beta2 = options.betas[1],
                .eps = options.eps,
                .weight_decay = run.weight_decay,
                .decoupled = options.decoupled_weight_decay,
                .mu = mu(options, run.step),
                .next_mu = mu(options, run.step + 1),
                .mu_product = mu_product(run.group, run.step),
                .step = run.step,
                .gradient_factor = run.gradient_factor});
}

double NAdam::mu(const NAdamOptions& options, std::int64_t step) {
  const double decay = std::pow(0.96, static_cast<double>(step) * options.momentum_decay);
  return options.betas[0] * (1.0 - 0.5 * decay);
}

double NAdam::mu_product(std::size_t group, std::int64_t step) {
  Product& known = products_[group];
  if (step < known.multiplied) known = {};
  for (; known.multiplied < step; ++known.multiplied)
    known.product *= mu(options_[group], known.multiplied + 1);
  return known.product;
}

}  // namespace lockstep::optim
