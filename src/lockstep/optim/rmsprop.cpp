#include <lockstep/optim/rmsprop.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/tensor/kernels/rmsprop.hpp>

namespace lockstep::optim {
namespace {

const RmspropOptions& validated(const RmspropOptions& options) {
  expect_below_one("RMSprop", "alpha", options.alpha);
  expect_not_negative("RMSprop", "eps", options.eps);
  expect_not_negative("RMSprop", "weight_decay", options.weight_decay);
  expect_not_negative("RMSprop", "momentum", options.momentum);
  return options;
}

std::vector<std::string> slots_of(const RmspropOptions& options) {
  std::vector<std::string> slots{"square_avg"};
  if (options.centered) slots.emplace_back("grad_avg");
  if (options.momentum > 0.0) slots.emplace_back("momentum_buffer");
  return slots;
}

}  // namespace

RMSprop::RMSprop(std::vector<nn::NamedParameter> parameters, const RmspropOptions& options,
                 const std::vector<ParameterGroup>& groups)
    : Optimizer(
          std::move(parameters),
          {.lr = options.lr, .weight_decay = options.weight_decay, .slots = slots_of(options)},
          groups),
      options_(validated(options)) {}

void RMSprop::update(const Run& run) {
  rmsprop_update(run.parameter, run.gradient, run.slots[0],
                 options_.centered ? run.slots[1] : Tensor(),
                 options_.momentum > 0.0 ? run.slots.back() : Tensor(),
                 {.lr = run.lr,
                  .alpha = options_.alpha,
                  .eps = options_.eps,
                  .weight_decay = run.weight_decay,
                  .momentum = options_.momentum,
                  .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
