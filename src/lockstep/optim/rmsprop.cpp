#include <lockstep/optim/rmsprop.hpp>

#include <cmath>
#include <utility>

#include <lockstep/optim/option_keys.hpp>
#include <lockstep/optim/update_rule.hpp>

namespace lockstep::optim {
namespace {

bool is_centered(const RmspropOptions& options) { return options.centered; }
bool has_momentum(const RmspropOptions& options) { return options.momentum > 0.0; }

template <class T, bool centered, bool with_momentum>
struct RmspropRule : WithDecay<T> {
  using WithDecay<T>::decay;

  RmspropRule(const Run& run, const RmspropOptions& options)
      : WithDecay<T>{Decay<T>(run)},
        keep(rounded<T>(options.alpha)),
        take(rounded<T>(1.0 - options.alpha)),
        eps(rounded<T>(options.eps)),
        momentum(rounded<T>(options.momentum)),
        lr(rounded<T>(run.lr)) {}

  /// The slots are square_avg and, if used, grad_avg and momentum_buffer.
  template <class... Further>
  KOKKOS_FUNCTION T operator()(T p, T g, T& square, Further&... further) const {
    g = decay.gradient(p, g);
    square = keep * square + take * g * g;
    T variance = square;
    if constexpr (centered) {
      T& mean = first(further...);
      mean += take * (g - mean);
      variance -= mean * mean;
      variance = variance < T{0} ? T{0} : variance;  // negative by rounding only
    }
    const T step = g / (std::sqrt(variance) + eps);
    if constexpr (with_momentum) {
      T& buffer = last(further...);
      buffer = momentum * buffer + step;
      return p - lr * buffer;
    }
    return p - lr * step;
  }

  template <class... Rest>
  KOKKOS_FUNCTION static T& first(T& a, Rest&...) {
    return a;
  }
  KOKKOS_FUNCTION static T& last(T& a) { return a; }
  KOKKOS_FUNCTION static T& last(T&, T& b) { return b; }

  T keep, take, eps, momentum, lr;
};

template <bool centered, bool with_momentum>
void update_as(const Run& run, const RmspropOptions& options) {
  std::array<const Tensor*, 1 + centered + with_momentum> slots{&run.slots[0]};
  if constexpr (centered) slots[1] = &run.slots[1];
  if constexpr (with_momentum) slots.back() = &run.slots.back();
  update_elements("lockstep::rmsprop", run, slots,
                  [&]<class T>() { return RmspropRule<T, centered, with_momentum>(run, options); });
}

void validate(const char* name, const RmspropOptions& options) {
  expect_below_one(name, "alpha", options.alpha);
}

}  // namespace

void declare(DeckTable& table, RmspropOptions& options) {
  declare_lr(table, options.lr);
  table.key("alpha", options.alpha,
            {.doc = "decay of the running mean square", .min = 0.0, .max = 1.0});
  declare_eps(table, options.eps);
  declare_weight_decay(table, options.weight_decay, l2_decay);
  declare_momentum(table, options.momentum);
  table.key("centered", options.centered,
            {.doc = "divide by the standard deviation instead of the root mean square"});
}

RMSprop::RMSprop(std::vector<nn::NamedParameter> parameters, const RmspropOptions& options,
                 const std::vector<ParameterGroup>& groups)
    : OptimizerOf(
          std::move(parameters), options, groups,
          {.name = "RMSprop",
           .slots = {{"square_avg"}, {"grad_avg", is_centered}, {"momentum_buffer", has_momentum}},
           .reads_step_tensors = true,
           .validate = validate}) {}

void RMSprop::update(const Run& run) {
  const RmspropOptions& options = options_of(run);
  if (options.centered) {
    has_momentum(options) ? update_as<true, true>(run, options)
                          : update_as<true, false>(run, options);
  } else {
    has_momentum(options) ? update_as<false, true>(run, options)
                          : update_as<false, false>(run, options);
  }
}

}  // namespace lockstep::optim
