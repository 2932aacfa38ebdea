#include <lockstep/tensor/kernels/softmax.hpp>

#include <limits>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

/// x[..., dim, ...] seen as (outer, width, inner): the softmax runs along the middle.
Shape around(const Shape& shape, int dim) {
  const int d = dim < 0 ? dim + shape.dims() : dim;
  const std::int64_t width = shape[d];  // throws if there is no such dimension
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < shape.dims(); ++i) (i < d ? outer : inner) *= i == d ? 1 : shape[i];
  return {outer, width, inner};
}

template <class T, class Space>
void forward_kernel(const Space& space, const Tensor& x, const Tensor& y) {
  const auto in = view<Space, const T, 3>(x);  // (outer, width, inner)
  const auto out = view<Space, T, 3>(y);
  const std::int64_t width = x.size(1), inner = x.size(2);
  for_each_row(
      "lockstep::log_softmax_forward", space, x.size(0) * inner, width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t o = r / inner, i = r % inner;
        const T largest = lanes.max(-std::numeric_limits<T>::infinity(),
                                    [&](std::int64_t c) { return in(o, c, i); });
        const T log_sum =
            std::log(lanes.sum([&](std::int64_t c) { return std::exp(in(o, c, i) - largest); }));
        lanes.each([&](std::int64_t c) { out(o, c, i) = in(o, c, i) - largest - log_sum; });
      });
}

template <class T, class Space>
void backward_kernel(const Space& space, const Tensor& grad_y, const Tensor& y, bool accumulate,
                     const Tensor& grad_x) {
  const auto g = view<Space, const T, 3>(grad_y);  // (outer, width, inner)
  const auto out = view<Space, const T, 3>(y);
  const auto result = view<Space, T, 3>(grad_x);
  const std::int64_t width = y.size(1), inner = y.size(2);
  for_each_row(
      "lockstep::log_softmax_backward", space, y.size(0) * inner, width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t o = r / inner, i = r % inner;
        const T total = lanes.sum([&](std::int64_t c) { return g(o, c, i); });
        lanes.each([&](std::int64_t c) {
          const T before = accumulate ? result(o, c, i) : T{0};
          result(o, c, i) = before + (g(o, c, i) - std::exp(out(o, c, i)) * total);
        });
      });
}

}  // namespace

void log_softmax_forward(const Tensor& x, int dim, const Tensor& y) {
  const Shape shape = around(x.shape(), dim);
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "log_softmax", [&]<class T>() {
      forward_kernel<T>(space, x.reshape(shape), y.reshape(shape));
    });
  });
}

void log_softmax_backward(const Tensor& grad_y, const Tensor& y, int dim, bool accumulate,
                          const Tensor& grad_x) {
  const Shape shape = around(y.shape(), dim);
  dispatch(current_stream(y.device()), [&](const auto& space) {
    dispatch_floating(y.dtype(), "log_softmax", [&]<class T>() {
      backward_kernel<T>(space, grad_y.reshape(shape), y.reshape(shape), accumulate,
                         grad_x.reshape(shape));
    });
  });
}

}  // namespace lockstep
