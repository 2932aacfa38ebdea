#include <lockstep/optim/lion.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/tensor/kernels/optim/lion.hpp>

namespace lockstep::optim {
namespace {

const LionOptions& validated(const LionOptions& options) {
  expect_below_one("Lion", "first beta", options.betas[0]);
  expect_below_one("Lion", "second beta", options.betas[1]);
  expect_not_negative("Lion", "weight_decay", options.weight_decay);
  return options;
}

}  // namespace

void declare(DeckTable& table, LionOptions& options) {
  declare_lr(table, options.lr);
  declare_betas(table, options.betas, "how much of the step's mean and of the kept mean stays");
  declare_weight_decay(table, options.weight_decay, decoupled_decay);
}

Lion::Lion(std::vector<nn::NamedParameter> parameters, const LionOptions& options,
           const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr, .weight_decay = options.weight_decay, .slots = {"exp_avg"}},
                groups),
      options_("Lion", options, groups, validated) {}

void Lion::update(const Run& run) {
  const LionOptions& options = options_[run.group];
  lion_update(run.parameter, run.gradient, run.slots[0],
              {.lr = run.lr,
               .beta1 = options.betas[0],
               .beta2 = options.betas[1],
               .weight_decay = run.weight_decay,
               .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
