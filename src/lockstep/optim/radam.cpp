#include <lockstep/optim/radam.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/tensor/kernels/optim/radam.hpp>

namespace lockstep::optim {
namespace {

const RAdamOptions& validated(const RAdamOptions& options) {
  expect_below_one("RAdam", "first beta", options.betas[0]);
  expect_below_one("RAdam", "second beta", options.betas[1]);
  expect_not_negative("RAdam", "eps", options.eps);
  expect_not_negative("RAdam", "weight_decay", options.weight_decay);
  return options;
}

}  // namespace

void declare(DeckTable& table, RAdamOptions& options) {
  declare_lr(table, options.lr);
  declare_betas(table, options.betas);
  declare_eps(table, options.eps);
  declare_weight_decay(table, options.weight_decay, either_decay);
  declare_decoupled_weight_decay(table, options.decoupled_weight_decay);
}

RAdam::RAdam(std::vector<nn::NamedParameter> parameters, const RAdamOptions& options,
             const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .slots = {"exp_avg", "exp_avg_sq"}},
                groups),
      options_("RAdam", options, groups, validated) {}

void RAdam::update(const Run& run) {
  const RAdamOptions& options = options_[run.group];
  radam_update(run.parameter, run.gradient, run.slots[0], run.slots[1],
               {.lr = run.lr,
                .beta1 = options.betas[0],
                .beta2 = options.betas[1],
                .eps = options.eps,
                .weight_decay = run.weight_decay,
                .decoupled = options.decoupled_weight_decay,
                .step = run.step,
                .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
