#include <lockstep/optim/layer_wise.hpp>

#include <lockstep/nn/name_pattern.hpp>

#include <algorithm>
#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/tensor/kernels/optim/lamb.hpp>
#include <lockstep/tensor/kernels/optim/lars.hpp>

namespace lockstep::optim {
namespace {

const LarsOptions& validated(const LarsOptions& options) {
  expect_not_negative("LARS", "momentum", options.momentum);
  expect_not_negative("LARS", "weight_decay", options.weight_decay);
  expect_not_negative("LARS", "trust_coefficient", options.trust_coefficient);
  return options;
}

const LambOptions& validated(const LambOptions& options) {
  expect_below_one("LAMB", "first beta", options.betas[0]);
  expect_below_one("LAMB", "second beta", options.betas[1]);
  expect_not_negative("LAMB", "eps", options.eps);
  expect_not_negative("LAMB", "weight_decay", options.weight_decay);
  return options;
}

}  // namespace

void declare(DeckTable& table, LarsOptions& options) {
  declare_lr(table, options.lr);
  declare_momentum(table, options.momentum);
  declare_weight_decay(table, options.weight_decay, l2_decay);
  table.key("trust_coefficient", options.trust_coefficient,
            {.doc = "length of a layer's step over the layer's norm, at rate 1", .min = 0.0});
  declare_not_adapted(table, options.not_adapted);
}

void declare(DeckTable& table, LambOptions& options) {
  declare_lr(table, options.lr);
  declare_betas(table, options.betas);
  declare_eps(table, options.eps);
  declare_weight_decay(table, options.weight_decay, decoupled_decay);
  declare_not_adapted(table, options.not_adapted);
}

LayerWise::LayerWise(std::vector<nn::NamedParameter> parameters, Setup setup,
                     const std::vector<ParameterGroup>& groups,
                     const std::vector<std::string>& not_adapted)
    : Optimizer(std::move(parameters), std::move(setup), groups) {
  for (const auto& pattern : not_adapted) nn::expect_some_fit(pattern, this->parameters());
  for (const auto& parameter : this->parameters()) {
    adapted_.push_back(std::ranges::none_of(not_adapted, [&](const std::string& pattern) {
      return nn::fits_pattern(pattern, parameter.name);
    }));
  }
}

LARS::LARS(std::vector<nn::NamedParameter> parameters, const LarsOptions& options,
           const std::vector<ParameterGroup>& groups)
    : LayerWise(std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .slots = {"momentum_buffer"},
                 .elementwise = false},
                groups, options.not_adapted),
      options_("LARS", options, groups, validated) {}

void LARS::update(const Run& run) {
  const LarsOptions& options = options_[run.group];
  lars_update(run.parameter, run.gradient, run.slots[0],
              {.lr = run.lr,
               .momentum = options.momentum,
               .weight_decay = run.weight_decay,
               .trust_coefficient = options.trust_coefficient,
               .adapt = adapts(run),
               .gradient_factor = run.gradient_factor});
}

LAMB::LAMB(std::vector<nn::NamedParameter> parameters, const LambOptions& options,
           const std::vector<ParameterGroup>& groups)
    : LayerWise(std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .slots = {"exp_avg", "exp_avg_sq"},
                 .elementwise = false},
                groups, options.not_adapted),
      options_("LAMB", options, groups, validated) {}

void LAMB::update(const Run& run) {
  const LambOptions& options = options_[run.group];
  lamb_update(run.parameter, run.gradient, run.slots[0], run.slots[1],
              {.lr = run.lr,
               .beta1 = options.betas[0],
               .beta2 = options.betas[1],
               .eps = options.eps,
               .weight_decay = run.weight_decay,
               .adapt = adapts(run),
               .step = run.step,
               .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
