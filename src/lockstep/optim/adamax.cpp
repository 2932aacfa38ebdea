#include <lockstep/optim/adamax.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/tensor/kernels/optim/adamax.hpp>

namespace lockstep::optim {
namespace {

const AdamaxOptions& validated(const AdamaxOptions& options) {
  expect_below_one("Adamax", "first beta", options.betas[0]);
  expect_below_one("Adamax", "second beta", options.betas[1]);
  expect_not_negative("Adamax", "eps", options.eps);
  expect_not_negative("Adamax", "weight_decay", options.weight_decay);
  return options;
}

}  // namespace

void declare(DeckTable& table, AdamaxOptions& options) {
  declare_lr(table, options.lr);
  declare_betas(table, options.betas,
                "how much the running mean of the gradient and its running largest size keep");
  declare_eps(table, options.eps, "added to the gradient's size");
  declare_weight_decay(table, options.weight_decay, l2_decay);
}

Adamax::Adamax(std::vector<nn::NamedParameter> parameters, const AdamaxOptions& options,
               const std::vector<ParameterGroup>& groups)
    : Optimizer(
          std::move(parameters),
          {.lr = options.lr, .weight_decay = options.weight_decay, .slots = {"exp_avg", "exp_inf"}},
          groups),
      options_("Adamax", options, groups, validated) {}

void Adamax::update(const Run& run) {
  const AdamaxOptions& options = options_[run.group];
  adamax_update(run.parameter, run.gradient, run.slots[0], run.slots[1],
                {.lr = run.lr,
                 .beta1 = options.betas[0],
                 .beta2 = options.betas[1],
                 .eps = options.eps,
                 .weight_decay = run.weight_decay,
                 .step = run.step,
                 .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
