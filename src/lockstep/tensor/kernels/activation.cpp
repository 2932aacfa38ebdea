#include <lockstep/tensor/kernels/activation.hpp>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

template <class T, class Space>
void forward_kernel(const Space& space, const Tensor& x, const Tensor& y) {
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  for_each(
      "lockstep::relu_forward", space, x.numel(),
      KOKKOS_LAMBDA(std::int64_t i) { out(i) = in(i) <= T{0} ? T{0} : in(i); });
}

template <class T, class Space>
void backward_kernel(const Space& space, const Tensor& grad_y, const Tensor& y, bool accumulate,
                     const Tensor& grad_x) {
  const auto g = flat_view<Space, const T>(grad_y);
  const auto out = flat_view<Space, const T>(y);
  const auto result = flat_view<Space, T>(grad_x);
  for_each(
      "lockstep::relu_backward", space, y.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const T before = accumulate ? result(i) : T{0};
        result(i) = before + (out(i) <= T{0} ? T{0} : g(i));
      });
}

}  // namespace

void relu_forward(const Tensor& x, const Tensor& y) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "relu", [&]<class T>() { forward_kernel<T>(space, x, y); });
  });
}

void relu_backward(const Tensor& grad_y, const Tensor& y, bool accumulate, const Tensor& grad_x) {
  dispatch(current_stream(y.device()), [&](const auto& space) {
    dispatch_floating(y.dtype(), "relu",
                      [&]<class T>() { backward_kernel<T>(space, grad_y, y, accumulate, grad_x); });
  });
}

}  // namespace lockstep
