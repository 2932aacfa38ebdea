#pragma once
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

// Shared by elementwise functions of one argument. A function F has value(x) and gradient(g, s),
// computed from the result's gradient g and the saved input or output s of the forward. T is
// the tensors' type; F calculates in SumOf<T>. Private to the kernels' .cpp files.

namespace lockstep::detail {

template <class T, class Space, class F>
void unary_forward_kernel(const Space& space, const F& f, const Tensor& x, const Tensor& y) {
  using Wide = SumOf<T>;
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  set_elements(
      F::forward, space, x.numel(), out,
      KOKKOS_LAMBDA(T x_at) { return static_cast<T>(f.value(static_cast<Wide>(x_at))); }, in);
}

template <class T, class Space, class F>
void unary_backward_kernel(const Space& space, const F& f, const Tensor& grad_y,
                           const Tensor& saved, bool accumulate, const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const auto g = flat_view<Space, const T>(grad_y);
  const auto at = flat_view<Space, const T>(saved);
  const auto result = flat_view<Space, T>(grad_x);
  set_or_add_elements(
      F::backward, space, saved.numel(), accumulate, result,
      KOKKOS_LAMBDA(T g_at, T saved_at) {
        return f.gradient(static_cast<Wide>(g_at), static_cast<Wide>(saved_at));
      },
      g, at);
}

/// y = f(x), where make.template operator()<SumOf<T>>() is f for elements of type T.
template <class Make>
void unary_forward_by(const char* name, const Make& make, const Tensor& x, const Tensor& y) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), name, [&]<class T>() {
      unary_forward_kernel<T>(space, make.template operator()<SumOf<T>>(), x, y);
    });
  });
}

/// grad_x (+)= the gradient that f computes from grad_y.
template <class Make>
void unary_backward_by(const char* name, const Make& make, const Tensor& grad_y,
                       const Tensor& saved, bool accumulate, const Tensor& grad_x) {
  dispatch(current_stream(saved.device()), [&](const auto& space) {
    dispatch_stored(saved.dtype(), name, [&]<class T>() {
      unary_backward_kernel<T>(space, make.template operator()<SumOf<T>>(), grad_y, saved,
                               accumulate, grad_x);
    });
  });
}

}  // namespace lockstep::detail
