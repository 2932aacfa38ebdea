#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/captured_rule.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

// The pass over a parameter that optimizers share. Private to the optimizers' .cpp files.

namespace lockstep::optim {

using Run = Optimizer::Run;

/// Throws ShapeError unless `t` (named by `what`) has the shape and dtype of the run's parameter.
inline void expect_like(const char* operation, const char* what, const Run& run, const Tensor& t) {
  const Tensor& parameter = run.parameter;
  if (t.defined() && t.shape() == parameter.shape() && t.dtype() == parameter.dtype()) return;
  throw ShapeError(std::string(operation) + ": the parameter is " + describe(parameter) +
                   ", but its " + what + " is " + (t.defined() ? describe(t) : "undefined"));
}

template <class T, class Space>
struct Elements {
  decltype(flat_view<Space, T>(Tensor())) view;
};

/// The numbers of a step that kernels read from device memory (Optimizer::StepTensors).
template <class Space>
struct LateNumbers {
  explicit LateNumbers(const Run& run) : known_factor(run.gradient_factor) {
    if (!run.tensors) return;
    const auto& [gradient_factor, found_inf] = *run.tensors;
    if (gradient_factor.defined()) factor = flat_view<Space, const double>(gradient_factor).data();
    if (found_inf.defined()) flag = flat_view<Space, const float>(found_inf).data();
  }

  KOKKOS_FUNCTION bool leaves_step_out() const { return flag && *flag != 0.0F; }
  KOKKOS_FUNCTION double gradient_factor() const { return factor ? *factor : known_factor; }

  const double* factor = nullptr;
  const float* flag = nullptr;
  double known_factor;
};

template <class Prepare, class F>
struct PreparedEach {
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    if (prepare.has_work()) f(prepare(), i);
  }

  Prepare prepare;
  F f;
};

/// Calls f(prepare(), i) for i in [0, n), like for_each_element(), or for none if
/// prepare.has_work() is false. Both are called where the kernel runs: on the host once per block
/// of elements.
template <class Space, class Prepare, class F>
void for_each_prepared(const char* label, const Space& space, std::int64_t n,
                       const Prepare& prepare, const F& f) {
  if constexpr (is_host_space<Space>) {
    constexpr std::int64_t block = 4096;
    for_each(label, space, (n + block - 1) / block, [=](std::int64_t b) LOCKSTEP_FLATTEN {
      if (!prepare.has_work()) return;
      const auto prepared = prepare();
      const std::int64_t begin = b * block, end = begin + block < n ? begin + block : n;
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) f(prepared, i);
    });
  } else {
    for_each(label, space, n, PreparedEach<Prepare, F>{prepare, f});
  }
}

/// A rule whose gradient factor is known only where the kernel runs; in a captured step all of it.
template <class Space, class Rule>
struct PreparedRule {
  [[nodiscard]] KOKKOS_FUNCTION bool has_work() const { return !late.leaves_step_out(); }
  [[nodiscard]] KOKKOS_FUNCTION Rule operator()() const {
    Rule now = captured ? *captured : rule;
    now.set_gradient_factor(late.gradient_factor());
    return now;
  }

  Rule rule;
  LateNumbers<Space> late;
  const Rule* captured = nullptr;  ///< CapturedRule::memory()
};

template <class T, class Space, class Rule, std::size_t... k>
void update_kernel(const char* label, const Space& space, const Run& run,
                   const std::array<const Tensor*, sizeof...(k)>& slots, const Rule& rule,
                   std::index_sequence<k...>) {
  const auto p = flat_view<Space, T>(run.parameter);
  const auto g = flat_view<Space, const T>(run.gradient);
  const void* const captured = run.captured ? run.captured->memory() : nullptr;
  const PreparedRule<Space, Rule> prepare{rule, LateNumbers<Space>(run),
                                          static_cast<const Rule*>(captured)};
  if constexpr (sizeof...(k) == 0) {
    for_each_prepared(
        label, space, run.parameter.numel(), prepare,
        KOKKOS_LAMBDA(const Rule& now, std::int64_t i) { p(i) = now(p(i), g(i)); });
  } else {
    const Elements<T, Space> s[] = {{flat_view<Space, T>(*slots[k])}...};
    for_each_prepared(
        label, space, run.parameter.numel(), prepare,
        KOKKOS_LAMBDA(const Rule& now, std::int64_t i) {
          T state[] = {s[k].view(i)...};
          p(i) = now(p(i), g(i), state[k]...);
          ((s[k].view(i) = state[k]), ...);
        });
  }
}

template <class Rule>
[[nodiscard]] bool keep_captured(CapturedRule& captured, const Rule& rule) {
  static_assert(std::is_trivially_copyable_v<Rule>, "a graph copies it to the device");
  return captured.keep(&rule, sizeof(Rule), typeid(Rule));
}

/// parameter = rule(parameter, gradient, slots...), element by element, by the rule make.template
/// operator()<T>() of the parameter's dtype, f32 or f64. The rule takes the slots by reference and
/// updates them. It is a WithDecay. `label`: "lockstep::" and the optimizer's name. Changes nothing
/// if the step is skipped (LateNumbers). In a replay of a captured step it only keeps the rule.
template <std::size_t n, class Make>
void update_elements(const char* label, const Run& run, const std::array<const Tensor*, n>& slots,
                     const Make& make) {
  const char* operation = label + std::string_view("lockstep::").size();
  expect_like(operation, "gradient", run, run.gradient);
  for (const Tensor* slot : slots) expect_like(operation, "state", run, *slot);
  dispatch(current_stream(run.parameter.device()), [&](const auto& space) {
    dispatch_floating(run.parameter.dtype(), operation, [&]<class T>() {
      const auto rule = make.template operator()<T>();
      if (run.captured && keep_captured(*run.captured, rule)) return;
      update_kernel<T>(label, space, run, slots, rule, std::make_index_sequence<n>());
    });
  });
}

/// The same over the run's first n slots.
template <std::size_t n, class Make>
void update_elements(const char* label, const Run& run, const Make& make) {
  std::array<const Tensor*, n> slots{};
  for (std::size_t i = 0; i < n; ++i) slots[i] = &run.slots[i];
  update_elements(label, run, slots, make);
}

/// x as a T: values of an update that are the same for every element are computed once, in double.
template <class T>
constexpr T rounded(double x) {
  return static_cast<T>(x);
}

/// 1 - beta^t of the t-th update: the bias correction of a running mean that started at 0.
inline double bias_correction(double beta, const Run& run) {
  return 1.0 - std::pow(beta, static_cast<double>(run.step));
}

/// How weight decay acts: it is added to the gradient (L2) or, decoupled, shrinks the parameter.
template <class T>
struct Decay {
  explicit Decay(const Run& run, bool decoupled = false)
      : factor(rounded<T>(run.gradient_factor)),
        added(rounded<T>(decoupled ? 0.0 : run.weight_decay)),
        keep(rounded<T>(decoupled ? 1.0 - run.lr * run.weight_decay : 1.0)) {}

  KOKKOS_FUNCTION T gradient(T p, T g) const { return factor * g + added * p; }

  T factor, added;
  T keep;  ///< factor of the parameter
};

/// The common part of all optimizers' rules.
template <class T>
struct WithDecay {
  Decay<T> decay;

  KOKKOS_FUNCTION void set_gradient_factor(double factor) { decay.factor = static_cast<T>(factor); }
};

/// The running means of gradients and of their squares.
template <class T>
struct Moments {
  explicit Moments(const Betas& betas)
      : take1(rounded<T>(1.0 - betas[0])),
        beta2(rounded<T>(betas[1])),
        take2(rounded<T>(1.0 - betas[1])) {}

  KOKKOS_FUNCTION void add(T g, T& mean, T& square) const {
    mean += take1 * (g - mean);
    square = beta2 * square + take2 * g * g;
  }

  T take1, beta2, take2;
};

}  // namespace lockstep::optim
