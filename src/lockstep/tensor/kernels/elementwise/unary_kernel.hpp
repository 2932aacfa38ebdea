#pragma once
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

// Shared by elementwise functions of one argument. A function F has value(x) and gradient(g, s),
// computed from the result's gradient g and the saved input or output s of the forward. Private to
// the kernels' .cpp files.

namespace lockstep::detail {

template <class T, class Space, class F>
void unary_forward_kernel(const Space& space, const F& f, const Tensor& x, const Tensor& y) {
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  for_each_element(
      F::forward, space, x.numel(), KOKKOS_LAMBDA(std::int64_t i) { out(i) = f.value(in(i)); });
}

template <class T, class Space, class F>
void unary_backward_kernel(const Space& space, const F& f, const Tensor& grad_y,
                           const Tensor& saved, bool accumulate, const Tensor& grad_x) {
  const auto g = flat_view<Space, const T>(grad_y);
  const auto at = flat_view<Space, const T>(saved);
  const auto result = flat_view<Space, T>(grad_x);
  // Two loops: a choice inside keeps GCC 12 from making vectors of the longer ones.
  if (accumulate) {
    for_each_element(
        F::backward, space, saved.numel(),
        KOKKOS_LAMBDA(std::int64_t i) { result(i) += f.gradient(g(i), at(i)); });
  } else {
    for_each_element(
        F::backward, space, saved.numel(),
        KOKKOS_LAMBDA(std::int64_t i) { result(i) = f.gradient(g(i), at(i)); });
  }
}

/// y = f(x), where make.template operator()<T>() is f for elements of type T.
template <class Make>
void unary_forward_by(const char* name, const Make& make, const Tensor& x, const Tensor& y) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), name, [&]<class T>() {
      unary_forward_kernel<T>(space, make.template operator()<T>(), x, y);
    });
  });
}

/// grad_x (+)= the gradient that f computes from grad_y.
template <class Make>
void unary_backward_by(const char* name, const Make& make, const Tensor& grad_y,
                       const Tensor& saved, bool accumulate, const Tensor& grad_x) {
  dispatch(current_stream(saved.device()), [&](const auto& space) {
    dispatch_floating(saved.dtype(), name, [&]<class T>() {
      unary_backward_kernel<T>(space, make.template operator()<T>(), grad_y, saved, accumulate,
                               grad_x);
    });
  });
}

}  // namespace lockstep::detail
