#pragma once
#include <array>
#include <cstddef>
#include <utility>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/expect_like.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

// The pass over a parameter that optimizers share. Private to the kernels' .cpp files.

namespace lockstep::detail {

template <class T, class Space>
struct Elements {
  decltype(flat_view<Space, T>(Tensor())) view;
};

/// parameter = rule(parameter, gradient, slots...), element by element: `rule` takes the slots by
/// reference and leaves in them what they become.
template <class T, class Space, class Rule, std::size_t... k>
void update_kernel(const char* label, const Space& space, const Tensor& parameter,
                   const Tensor& gradient, const std::array<const Tensor*, sizeof...(k)>& slots,
                   const Rule& rule, std::index_sequence<k...>) {
  const auto p = flat_view<Space, T>(parameter);
  const auto g = flat_view<Space, const T>(gradient);
  const Elements<T, Space> s[] = {{flat_view<Space, T>(*slots[k])}...};
  for_each_element(
      label, space, parameter.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        T state[] = {s[k].view(i)...};
        p(i) = rule(p(i), g(i), state[k]...);
        ((s[k].view(i) = state[k]), ...);
      });
}

/// Applies make.template operator()<T>(), the rule in the parameter's dtype, to a parameter, its
/// gradient and `slots`, all of one shape and dtype (f32 or f64). Throws ShapeError if they differ.
template <std::size_t n, class Make>
void update_parameter(const char* operation, const char* label, const Tensor& parameter,
                      const Tensor& gradient, const std::array<const Tensor*, n>& slots,
                      const Make& make) {
  expect_like(operation, "gradient", parameter, gradient);
  for (const Tensor* slot : slots) expect_like(operation, "state", parameter, *slot);
  dispatch(current_stream(parameter.device()), [&](const auto& space) {
    dispatch_floating(parameter.dtype(), operation, [&]<class T>() {
      update_kernel<T>(label, space, parameter, gradient, slots, make.template operator()<T>(),
                       std::make_index_sequence<n>());
    });
  });
}

/// x as a T: what of an update is the same for every element is worked out once and in double.
template <class T>
constexpr T rounded(double x) {
  return static_cast<T>(x);
}

}  // namespace lockstep::detail
