#include <lockstep/optim/adadelta.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/tensor/kernels/optim/adadelta.hpp>

namespace lockstep::optim {
namespace {

const AdadeltaOptions& validated(const AdadeltaOptions& options) {
  expect_below_one("Adadelta", "rho", options.rho);
  expect_not_negative("Adadelta", "eps", options.eps);
  expect_not_negative("Adadelta", "weight_decay", options.weight_decay);
  return options;
}

}  // namespace

void declare(DeckTable& table, AdadeltaOptions& options) {
  declare_lr(table, options.lr);
  table.key("rho", options.rho, {.doc = "how much the mean squares keep", .min = 0.0, .max = 1.0});
  declare_eps(table, options.eps, "added to the mean squares, under their roots");
  declare_weight_decay(table, options.weight_decay, l2_decay);
}

Adadelta::Adadelta(std::vector<nn::NamedParameter> parameters, const AdadeltaOptions& options,
                   const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .slots = {"square_avg", "acc_delta"}},
                groups),
      options_("Adadelta", options, groups, validated) {}

void Adadelta::update(const Run& run) {
  const AdadeltaOptions& options = options_[run.group];
  adadelta_update(run.parameter, run.gradient, run.slots[0], run.slots[1],
                  {.lr = run.lr,
                   .rho = options.rho,
                   .eps = options.eps,
                   .weight_decay = run.weight_decay,
                   .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
