#include <lockstep/optim/adam.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/tensor/kernels/adam.hpp>

namespace lockstep::optim {
namespace {

const AdamOptions& validated(const char* name, const AdamOptions& options) {
  expect_below_one(name, "first beta", options.betas[0]);
  expect_below_one(name, "second beta", options.betas[1]);
  expect_not_negative(name, "eps", options.eps);
  expect_not_negative(name, "weight_decay", options.weight_decay);
  return options;
}

std::vector<std::string> slots_of(const AdamOptions& options) {
  std::vector<std::string> slots{"exp_avg", "exp_avg_sq"};
  if (options.amsgrad) slots.emplace_back("max_exp_avg_sq");
  return slots;
}

}  // namespace

Adam::Adam(std::vector<nn::NamedParameter> parameters, const AdamOptions& options,
           const std::vector<ParameterGroup>& groups)
    : Adam("Adam", std::move(parameters), options, false, groups) {}

Adam::Adam(const char* name, std::vector<nn::NamedParameter> parameters, const AdamOptions& options,
           bool decoupled_weight_decay, const std::vector<ParameterGroup>& groups)
    : Optimizer(
          std::move(parameters),
          {.lr = options.lr, .weight_decay = options.weight_decay, .slots = slots_of(options)},
          groups),
      options_(validated(name, options)),
      decoupled_weight_decay_(decoupled_weight_decay) {}

void Adam::update(const Run& run) {
  adam_update(run.parameter, run.gradient, run.slots[0], run.slots[1],
              options_.amsgrad ? run.slots[2] : Tensor(),
              {.lr = run.lr,
               .beta1 = options_.betas[0],
               .beta2 = options_.betas[1],
               .eps = options_.eps,
               .weight_decay = run.weight_decay,
               .decoupled = decoupled_weight_decay_,
               .step = run.step,
               .gradient_factor = run.gradient_factor});
}

AdamW::AdamW(std::vector<nn::NamedParameter> parameters, const AdamWOptions& options,
             const std::vector<ParameterGroup>& groups)
    : Adam("AdamW", std::move(parameters),
           {.lr = options.lr,
            .betas = options.betas,
            .eps = options.eps,
            .weight_decay = options.weight_decay,
            .amsgrad = options.amsgrad},
           true, groups) {}

}  // namespace lockstep::optim
