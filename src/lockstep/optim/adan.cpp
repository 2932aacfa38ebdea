#include <lockstep/optim/adan.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/tensor/kernels/optim/adan.hpp>

namespace lockstep::optim {
namespace {

const AdanOptions& validated(const AdanOptions& options) {
  expect_below_one("Adan", "first beta", options.betas[0]);
  expect_below_one("Adan", "second beta", options.betas[1]);
  expect_below_one("Adan", "third beta", options.betas[2]);
  expect_not_negative("Adan", "eps", options.eps);
  expect_not_negative("Adan", "weight_decay", options.weight_decay);
  return options;
}

}  // namespace

void declare(DeckTable& table, AdanOptions& options) {
  declare_lr(table, options.lr);
  declare_betas(table, options.betas,
                "how much the running means of the gradient, of its change and of the square keep");
  declare_eps(table, options.eps);
  declare_weight_decay(table, options.weight_decay,
                       "decoupled: a step divides the parameter by 1 + lr weight_decay");
  table.key("no_prox", options.no_prox,
            {.doc = "multiply the parameter by 1 - lr weight_decay before the step, as adamw"});
}

Adan::Adan(std::vector<nn::NamedParameter> parameters, const AdanOptions& options,
           const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .slots = {"exp_avg", "exp_avg_diff", "exp_avg_sq", "previous_grad"}},
                groups),
      options_("Adan", options, groups, validated) {}

void Adan::update(const Run& run) {
  const AdanOptions& options = options_[run.group];
  adan_update(run.parameter, run.gradient, run.slots[0], run.slots[1], run.slots[2], run.slots[3],
              {.lr = run.lr,
               .beta1 = options.betas[0],
               .beta2 = options.betas[1],
               .beta3 = options.betas[2],
               .eps = options.eps,
               .weight_decay = run.weight_decay,
               .no_prox = options.no_prox,
               .step = run.step,
               .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
