#include <lockstep/optim/asgd.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/take_options.hpp>
#include <lockstep/tensor/kernels/asgd.hpp>

namespace lockstep::optim {
namespace {

const AsgdOptions& validated(const AsgdOptions& options) {
  expect_not_negative("ASGD", "lambd", options.lambd);
  expect_not_negative("ASGD", "alpha", options.alpha);
  expect_not_negative("ASGD", "t0", options.t0);
  expect_not_negative("ASGD", "weight_decay", options.weight_decay);
  return options;
}

}  // namespace

ASGD::ASGD(std::vector<nn::NamedParameter> parameters, const AsgdOptions& options,
           const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr, .weight_decay = options.weight_decay, .slots = {"ax"}}, groups),
      options_(grouped("ASGD", options, groups, validated)) {}

void ASGD::update(const Run& run) {
  const AsgdOptions& options = options_[run.group];
  asgd_update(run.parameter, run.gradient, run.slots[0],
              {.lr = run.lr,
               .lambd = options.lambd,
               .alpha = options.alpha,
               .t0 = options.t0,
               .weight_decay = run.weight_decay,
               .step = run.step,
               .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
