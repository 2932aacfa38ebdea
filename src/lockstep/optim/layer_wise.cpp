#include <lockstep/optim/layer_wise.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <lockstep/nn/name_pattern.hpp>
#include <lockstep/optim/option_keys.hpp>
#include <lockstep/optim/update_rule.hpp>
#include <lockstep/tensor/kernels/optim/clip.hpp>
#include <lockstep/tensor/kernels/reduce/ordered_sum.hpp>

namespace lockstep::optim {
namespace {

template <class T>
struct LarsRule {
  LarsRule(const Run& run, const LarsOptions& options, double ratio)
      : decay(run), momentum(rounded<T>(options.momentum)), lr(rounded<T>(run.lr * ratio)) {}

  KOKKOS_FUNCTION T operator()(T w, T g, T& velocity) const {
    velocity = momentum * velocity + lr * decay.gradient(w, g);
    return w - velocity;
  }

  Decay<T> decay;
  T momentum, lr;
};

/// u of the formula: worked out twice, for its norm and for the step, rather than stored.
template <class T, class Space>
struct Direction {
  using View = decltype(flat_view<Space, const T>(Tensor()));

  Direction(const Run& run, const LambOptions& options)
      : x(flat_view<Space, const T>(run.parameter)),
        m(flat_view<Space, const T>(run.slots[0])),
        v(flat_view<Space, const T>(run.slots[1])),
        correction1(rounded<T>(1.0 / bias_correction(options.betas[0], run))),
        correction2(rounded<T>(1.0 / std::sqrt(bias_correction(options.betas[1], run)))),
        eps(rounded<T>(options.eps)),
        decay(rounded<T>(run.weight_decay)) {}

  KOKKOS_FUNCTION T operator()(std::int64_t i) const {
    return m(i) * correction1 / (std::sqrt(v(i)) * correction2 + eps) + decay * x(i);
  }

  View x, m, v;
  T correction1, correction2, eps, decay;
};

template <class T, class Space>
void lamb_moments(const Space& space, const Run& run, const LambOptions& options) {
  const auto g = flat_view<Space, const T>(run.gradient);
  const auto m = flat_view<Space, T>(run.slots[0]);
  const auto v = flat_view<Space, T>(run.slots[1]);
  const Moments<T> moments(options.betas);
  const T factor = rounded<T>(run.gradient_factor);
  for_each(
      "lockstep::lamb_moments", space, run.gradient.numel(),
      KOKKOS_LAMBDA(std::int64_t i) { moments.add(factor * g(i), m(i), v(i)); });
}

template <class T, class Space>
void lamb_step(const Space& space, const Run& run, const LambOptions& options, bool adapt) {
  const Direction<T, Space> direction(run, options);
  double ratio = 1.0;
  if (adapt) {
    const double norm = euclidean_norm(run.parameter);
    const double step = std::sqrt(ordered_sum("lockstep::lamb_norm", space, run.parameter,
                                              run.parameter.numel(), Squares{direction}));
    if (norm > 0.0 && step > 0.0) ratio = norm / step;
  }
  const auto x = flat_view<Space, T>(run.parameter);
  const T lr = rounded<T>(run.lr * ratio);
  for_each(
      "lockstep::lamb_step", space, run.parameter.numel(),
      KOKKOS_LAMBDA(std::int64_t i) { x(i) -= lr * direction(i); });
}

void validate(const char* name, const LarsOptions& options) {
  expect_not_negative(name, "trust_coefficient", options.trust_coefficient);
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
  declare_adam_keys(table, options, decoupled_decay);
  declare_not_adapted(table, options.not_adapted);
}

AdaptedLayers::AdaptedLayers(const std::vector<nn::NamedParameter>& parameters,
                             const std::vector<std::string>& not_adapted) {
  for (const auto& pattern : not_adapted) nn::expect_some_fit(pattern, parameters);
  for (const auto& parameter : parameters) {
    adapted_.push_back(std::ranges::none_of(not_adapted, [&](const std::string& pattern) {
      return nn::fits_pattern(pattern, parameter.name);
    }));
  }
}

LARS::LARS(std::vector<nn::NamedParameter> parameters, const LarsOptions& options,
           const std::vector<ParameterGroup>& groups)
    : OptimizerOf(std::move(parameters), options, groups,
                  {.name = "LARS",
                   .slots = {{"momentum_buffer"}},
                   .elementwise = false,
                   .validate = validate}),
      adapted_(this->parameters(), options.not_adapted) {}

void LARS::update(const Run& run) {
  const LarsOptions& options = options_of(run);
  double ratio = 1.0;
  if (adapted_[run.first]) {
    const double w = euclidean_norm(run.parameter),
                 g = run.gradient_factor * euclidean_norm(run.gradient);
    if (w > 0.0 && g > 0.0) ratio = options.trust_coefficient * w / (g + run.weight_decay * w);
  }
  update_elements<1>("lockstep::lars", run,
                     [&]<class T>() { return LarsRule<T>(run, options, ratio); });
}

LAMB::LAMB(std::vector<nn::NamedParameter> parameters, const LambOptions& options,
           const std::vector<ParameterGroup>& groups)
    : OptimizerOf(std::move(parameters), options, groups,
                  {.name = "LAMB", .slots = {{"exp_avg"}, {"exp_avg_sq"}}, .elementwise = false}),
      adapted_(this->parameters(), options.not_adapted) {}

void LAMB::update(const Run& run) {
  expect_like("lamb", "gradient", run, run.gradient);
  dispatch(current_stream(run.parameter.device()), [&](const auto& space) {
    dispatch_floating(run.parameter.dtype(), "lamb", [&]<class T>() {
      lamb_moments<T>(space, run, options_of(run));
      lamb_step<T>(space, run, options_of(run), adapted_[run.first]);
    });
  });
}

}  // namespace lockstep::optim
