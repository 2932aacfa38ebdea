#include <lockstep/optim/adamax.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/take_options.hpp>
#include <lockstep/tensor/kernels/adamax.hpp>

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

Adamax::Adamax(std::vector<nn::NamedParameter> parameters, const AdamaxOptions& options,
               const std::vector<ParameterGroup>& groups)
    : Optimizer(
          std::move(parameters),
          {.lr = options.lr, .weight_decay = options.weight_decay, .slots = {"exp_avg", "exp_inf"}},
          groups),
      options_(grouped("Adamax", options, groups, validated)) {}

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
