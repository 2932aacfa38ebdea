#include <lockstep/optim/adam.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/tensor/kernels/optim/adam.hpp>

namespace lockstep::optim {
namespace {

void validate(const char* name, const AdamOptions& options) {
  expect_below_one(name, "first beta", options.betas[0]);
  expect_below_one(name, "second beta", options.betas[1]);
  expect_not_negative(name, "eps", options.eps);
  expect_not_negative(name, "weight_decay", options.weight_decay);
}

GroupedOptions<AdamOptions> grouped_adam(const char* name, const AdamOptions& options,
                                         const std::vector<ParameterGroup>& groups) {
  return {name, options, groups, [&](const AdamOptions& of_group) { validate(name, of_group); }};
}

std::vector<std::string> slots_of(const char* name, const AdamOptions& options,
                                  const std::vector<ParameterGroup>& groups) {
  std::vector<std::string> slots{"exp_avg", "exp_avg_sq"};
  const auto amsgrad = [](const AdamOptions& of_group) { return of_group.amsgrad; };
  if (grouped_adam(name, options, groups).any(amsgrad)) slots.emplace_back("max_exp_avg_sq");
  return slots;
}

}  // namespace

void declare(DeckTable& table, AdamOptions& options) {
  declare_lr(table, options.lr);
  declare_betas(table, options.betas);
  declare_eps(table, options.eps);
  declare_weight_decay(table, options.weight_decay, l2_decay);
  declare_amsgrad(table, options.amsgrad);
}

void declare(DeckTable& table, AdamWOptions& options) {
  declare_lr(table, options.lr);
  declare_betas(table, options.betas);
  declare_eps(table, options.eps);
  declare_weight_decay(table, options.weight_decay, decoupled_decay);
  declare_amsgrad(table, options.amsgrad);
}

Adam::Adam(std::vector<nn::NamedParameter> parameters, const AdamOptions& options,
           const std::vector<ParameterGroup>& groups)
    : Adam("Adam", std::move(parameters), options, false, groups) {}

Adam::Adam(const char* name, std::vector<nn::NamedParameter> parameters, const AdamOptions& options,
           bool decoupled_weight_decay, const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .slots = slots_of(name, options, groups)},
                groups),
      options_(grouped_adam(name, options, groups)),
      decoupled_weight_decay_(decoupled_weight_decay) {}

void Adam::update(const Run& run) {
  const AdamOptions& options = options_[run.group];
  adam_update(run.parameter, run.gradient, run.slots[0], run.slots[1],
              options.amsgrad ? run.slots[2] : Tensor(),
              {.lr = run.lr,
               .beta1 = options.betas[0],
               .beta2 = options.betas[1],
               .eps = options.eps,
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
