#include <lockstep/optim/adadelta.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/take_options.hpp>
#include <lockstep/tensor/kernels/adadelta.hpp>

namespace lockstep::optim {
namespace {

const AdadeltaOptions& validated(const AdadeltaOptions& options) {
  expect_below_one("Adadelta", "rho", options.rho);
  expect_not_negative("Adadelta", "eps", options.eps);
  expect_not_negative("Adadelta", "weight_decay", options.weight_decay);
  return options;
}

}  // namespace

Adadelta::Adadelta(std::vector<nn::NamedParameter> parameters, const AdadeltaOptions& options,
                   const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .slots = {"square_avg", "acc_delta"}},
                groups),
      options_(grouped("Adadelta", options, groups, validated)) {}

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
