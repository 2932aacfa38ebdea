#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

// The pass over a parameter that optimizers share. Private to the optimizers' .cpp files.

namespace lockstep::optim {

using Run = Optimizer::Run;

/// Throws ShapeError unless `t`, the `what` of the run's parameter, has its shape and dtype.
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

template <class T, class Space, class Rule, std::size_t... k>
void update_kernel(const char* label, const Space& space, const Run& run,
                   const std::array<const Tensor*, sizeof...(k)>& slots, const Rule& rule,
                   std::index_sequence<k...>) {
  const auto p = flat_view<Space, T>(run.parameter);
  const auto g = flat_view<Space, const T>(run.gradient);
  if constexpr (sizeof...(k) == 0) {
    for_each_element(
        label, space, run.parameter.numel(),
        KOKKOS_LAMBDA(std::int64_t i) { p(i) = rule(p(i), g(i)); });
  } else {
    const Elements<T, Space> s[] = {{flat_view<Space, T>(*slots[k])}...};
    for_each_element(
        label, space, run.parameter.numel(), KOKKOS_LAMBDA(std::int64_t i) {
          T state[] = {s[k].view(i)...};
          p(i) = rule(p(i), g(i), state[k]...);
          ((s[k].view(i) = state[k]), ...);
        });
  }
}

/// parameter = rule(parameter, gradient, slots...), element by element, by the rule
/// make.template operator()<T>() of the parameter's dtype, f32 or f64. The rule takes the slots by
/// reference and leaves in them what they become. `label`: "lockstep::" and the optimizer's name.
template <std::size_t n, class Make>
void update_elements(const char* label, const Run& run, const std::array<const Tensor*, n>& slots,
                     const Make& make) {
  const char* operation = label + std::string_view("lockstep::").size();
  expect_like(operation, "gradient", run, run.gradient);
  for (const Tensor* slot : slots) expect_like(operation, "state", run, *slot);
  dispatch(current_stream(run.parameter.device()), [&](const auto& space) {
    dispatch_floating(run.parameter.dtype(), operation, [&]<class T>() {
      update_kernel<T>(label, space, run, slots, make.template operator()<T>(),
                       std::make_index_sequence<n>());
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

/// x as a T: what of an update is the same for every element is worked out once and in double.
template <class T>
constexpr T rounded(double x) {
  return static_cast<T>(x);
}

/// 1 - beta^t of the t-th update: what a running mean that began with 0 is divided by.
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
  T keep;  ///< what the parameter is multiplied by
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
