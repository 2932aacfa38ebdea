#include <lockstep/optim/rmsprop.hpp>

#include <utility>

#include <lockstep/optim/expect_hyper_parameter.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/tensor/kernels/optim/rmsprop.hpp>

namespace lockstep::optim {
namespace {

const RmspropOptions& validated(const RmspropOptions& options) {
  expect_below_one("RMSprop", "alpha", options.alpha);
  expect_not_negative("RMSprop", "eps", options.eps);
  expect_not_negative("RMSprop", "weight_decay", options.weight_decay);
  expect_not_negative("RMSprop", "momentum", options.momentum);
  return options;
}

bool is_centered(const RmspropOptions& options) { return options.centered; }
bool has_momentum(const RmspropOptions& options) { return options.momentum > 0.0; }

std::vector<std::string> slots_of(const RmspropOptions& usual,
                                  const std::vector<ParameterGroup>& groups) {
  const GroupedOptions<RmspropOptions> options("RMSprop", usual, groups, validated);
  std::vector<std::string> slots{"square_avg"};
  if (options.any(is_centered)) slots.emplace_back("grad_avg");
  if (options.any(has_momentum)) slots.emplace_back("momentum_buffer");
  return slots;
}

}  // namespace

void declare(DeckTable& table, RmspropOptions& options) {
  declare_lr(table, options.lr);
  table.key("alpha", options.alpha,
            {.doc = "how much the mean square keeps", .min = 0.0, .max = 1.0});
  declare_eps(table, options.eps);
  declare_weight_decay(table, options.weight_decay, l2_decay);
  declare_momentum(table, options.momentum);
  table.key("centered", options.centered,
            {.doc = "divide by the deviation from the mean gradient"});
}

RMSprop::RMSprop(std::vector<nn::NamedParameter> parameters, const RmspropOptions& options,
                 const std::vector<ParameterGroup>& groups)
    : Optimizer(std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .slots = slots_of(options, groups)},
                groups),
      options_("RMSprop", options, groups, validated) {}

void RMSprop::update(const Run& run) {
  const RmspropOptions& options = options_[run.group];
  rmsprop_update(run.parameter, run.gradient, run.slots[0],
                 options.centered ? run.slots[1] : Tensor(),
                 options.momentum > 0.0 ? run.slots.back() : Tensor(),
                 {.lr = run.lr,
                  .alpha = options.alpha,
                  .eps = options.eps,
                  .weight_decay = run.weight_decay,
                  .momentum = options.momentum,
                  .gradient_factor = run.gradient_factor});
}

}  // namespace lockstep::optim
