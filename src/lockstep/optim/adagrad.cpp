#include <lockstep/optim/adagrad.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/tensor/kernels/adagrad.hpp>

namespace lockstep::optim {
namespace {

const AdagradOptions& validated(const AdagradOptions& options) {
  expect_not_negative("Adagrad", "lr_decay", options.lr_decay);
  expect_not_negative("Adagrad", "weight_decay", options.weight_decay);
  expect_not_negative("Adagrad", "initial_accumulator_value", options.initial_accumulator_value);
  expect_not_negative("Adagrad", "eps", options.eps);
  return options;
}

}  // namespace

Adagrad::Adagrad(std::vector<nn::NamedParameter> parameters, const AdagradOptions& options,
                 const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr, .weight_decay = options.weight_decay, .slots = {"sum"}}, groups),
      options_(validated(options)) {
  if (options_.initial_accumulator_value == 0.0) return;
  for (const auto& entry : state_dict()) {
    if (entry.name.ends_with("/sum")) entry.tensor.fill(options_.initial_accumulator_value);
  }
}

void Adagrad::update(const Run& run) {
  adagrad_update(run.parameter, run.gradient, run.slots[0],
                 {.lr = run.lr,
                  .lr_decay = options_.lr_decay,
                  .weight_decay = run.weight_decay,
                  .eps = options_.eps,
                  .step = run.step,
                  .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
