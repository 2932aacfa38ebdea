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

/// Euclidean norms of two tensors, in memory that kernels can read.
struct Norms {
  explicit Norms(const Tensor& like) : both(Tensor::empty({2}, DType::f64, like.device())) {}

  [[nodiscard]] Tensor first() const { return both.slice(0, 1); }
  [[nodiscard]] Tensor second() const { return both.slice(1, 2); }
  [[nodiscard]] const double* data() const { return static_cast<double*>(both.kernel_data()); }

  Tensor both;
};

template <class T>
struct LarsRule : WithDecay<T> {
  using WithDecay<T>::decay;

  /// `norms`: of the parameter and its gradient; null where the ratio is 1.
  LarsRule(const Run& run, const LarsOptions& options, const double* norms)
      : WithDecay<T>{Decay<T>(run)},
        momentum(rounded<T>(options.momentum)),
        norms(norms),
        rate(run.lr),
        trust_coefficient(options.trust_coefficient),
        weight_decay(run.weight_decay) {}

  KOKKOS_FUNCTION void set_gradient_factor(double factor) {
    WithDecay<T>::set_gradient_factor(factor);
    lr = static_cast<T>(rate * trust_ratio(factor));
  }
  KOKKOS_FUNCTION double trust_ratio(double factor) const {
    if (!norms) return 1.0;
    const double w = norms[0], g = factor * norms[1];
    return w > 0.0 && g > 0.0 ? trust_coefficient * w / (g + weight_decay * w) : 1.0;
  }

  KOKKOS_FUNCTION T operator()(T w, T g, T& velocity) const {
    velocity = momentum * velocity + lr * decay.gradient(w, g);
    return w - velocity;
  }

  T momentum, lr{};
  const double* norms;
  double rate, trust_coefficient, weight_decay;
};

/// u of the formula. It is computed twice, for its norm and for the step, instead of being stored.
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

template <class T>
struct LambMoments {
  KOKKOS_FUNCTION void set_gradient_factor(double value) { factor = static_cast<T>(value); }
  KOKKOS_FUNCTION void add(T g, T& m, T& v) const { moments.add(factor * g, m, v); }

  Moments<T> moments;
  T factor{};
};

template <class T, class Space>
void lamb_moments(const Space& space, const Run& run, const LambOptions& options) {
  const auto g = flat_view<Space, const T>(run.gradient);
  const auto m = flat_view<Space, T>(run.slots[0]);
  const auto v = flat_view<Space, T>(run.slots[1]);
  using Now = LambMoments<T>;
  const PreparedRule<Space, Now> prepare{{Moments<T>(options.betas)}, LateNumbers<Space>(run)};
  for_each_prepared(
      "lockstep::lamb_moments", space, run.gradient.numel(), prepare,
      KOKKOS_LAMBDA(const Now& now, std::int64_t i) { now.add(g(i), m(i), v(i)); });
}

/// The rate times the trust ratio, computed in the kernel.
template <class T, class Space>
struct LambRate {
  [[nodiscard]] KOKKOS_FUNCTION bool has_work() const { return !late.leaves_step_out(); }
  [[nodiscard]] KOKKOS_FUNCTION T operator()() const {
    if (!norms) return static_cast<T>(rate);
    const double norm = norms[0], step = std::sqrt(norms[1]);
    const double ratio = norm > 0.0 && step > 0.0 ? norm / step : 1.0;
    return static_cast<T>(rate * ratio);
  }

  double rate;
  const double* norms;  ///< |x| and |u|^2; null where the ratio is 1
  LateNumbers<Space> late;
};

template <class T, class Space>
void lamb_step(const Space& space, const Run& run, const LambOptions& options, bool adapt) {
  const Direction<T, Space> direction(run, options);
  const Norms norms(run.parameter);
  if (adapt) {
    euclidean_norm(run.parameter, norms.first());
    ordered_sum_into(norms.second(), "lockstep::lamb_norm", space, run.parameter.numel(),
                     Squares{direction});
  }
  const auto x = flat_view<Space, T>(run.parameter);
  const LambRate<T, Space> rate{run.lr, adapt ? norms.data() : nullptr, LateNumbers<Space>(run)};
  for_each_prepared(
      "lockstep::lamb_step", space, run.parameter.numel(), rate,
      KOKKOS_LAMBDA(const T& lr, std::int64_t i) { x(i) -= lr * direction(i); });
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
            {.doc = "ratio of a layer's step to the layer's norm at rate 1", .min = 0.0});
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
                   .reads_step_tensors = true,
                   .validate = validate}),
      adapted_(this->parameters(), options.not_adapted) {}

void LARS::update(const Run& run) {
  const LarsOptions& options = options_of(run);
  const Norms norms(run.parameter);
  const bool adapt = adapted_[run.first];
  if (adapt) {
    euclidean_norm(run.parameter, norms.first());
    euclidean_norm(run.gradient, norms.second());
  }
  update_elements<1>("lockstep::lars", run, [&]<class T>() {
    return LarsRule<T>(run, options, adapt ? norms.data() : nullptr);
  });
}

LAMB::LAMB(std::vector<nn::NamedParameter> parameters, const LambOptions& options,
           const std::vector<ParameterGroup>& groups)
    : OptimizerOf(std::move(parameters), options, groups,
                  {.name = "LAMB",
                   .slots = {{"exp_avg"}, {"exp_avg_sq"}},
                   .elementwise = false,
                   .reads_step_tensors = true}),
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
