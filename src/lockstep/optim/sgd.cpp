#include <lockstep/optim/sgd.hpp>

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/tensor/kernels/optim/sgd.hpp>

namespace lockstep::optim {
namespace {

const SgdOptions& validated(const SgdOptions& options) {
  expect_not_negative("SGD", "momentum", options.momentum);
  expect_not_negative("SGD", "weight_decay", options.weight_decay);
  if (!std::isfinite(options.dampening)) {
    throw InputError(fmt::format("SGD's dampening must be finite, not {}", options.dampening));
  }
  if (options.nesterov && (options.momentum == 0.0 || options.dampening != 0.0)) {
    throw InputError(
        fmt::format("SGD's nesterov needs momentum above 0 and dampening 0, not {} and {}",
                    options.momentum, options.dampening));
  }
  return options;
}

bool has_momentum(const SgdOptions& options) { return options.momentum != 0.0; }

std::vector<std::string> slots_of(const SgdOptions& options,
                                  const std::vector<ParameterGroup>& groups) {
  if (!GroupedOptions<SgdOptions>("SGD", options, groups, validated).any(has_momentum)) return {};
  return {"momentum_buffer"};
}

}  // namespace

void declare(DeckTable& table, SgdOptions& options) {
  declare_lr(table, options.lr);
  declare_momentum(table, options.momentum);
  table.key("dampening", options.dampening,
            {.doc = "how much of the gradient is held back", .min = 0.0, .max = 1.0});
  table.key("nesterov", options.nesterov,
            {.doc = "look ahead along the momentum; needs momentum above 0 and dampening 0"});
  declare_weight_decay(table, options.weight_decay, l2_decay);
}

SGD::SGD(std::vector<nn::NamedParameter> parameters, const SgdOptions& options,
         const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .slots = slots_of(options, groups)},
                groups),
      options_("SGD", options, groups, validated) {}

void SGD::update(const Run& run) {
  const SgdOptions& options = options_[run.group];
  sgd_update(run.parameter, run.gradient, has_momentum(options) ? run.slots[0] : Tensor(),
             {.lr = run.lr,
              .momentum = options.momentum,
              .dampening = options.dampening,
              .weight_decay = run.weight_decay,
              .nesterov = options.nesterov,
              .first = run.step == 1,
              .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
