#include <lockstep/tensor/kernels/reduce/logsumexp.hpp>

#include <limits>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/rows_along.hpp>

namespace lockstep {
namespace {

using detail::dispatch_rows;
using detail::Rows;

template <bool contiguous, class T, class Space>
void forward_kernel(const Space& space, const Tensor& x, const Shape& shape, const Tensor& y) {
  const Rows<const T, Space, contiguous> in(x, shape);
  const auto out = flat_view<Space, T>(y);
  for_each_row(
      "lockstep::logsumexp_forward", space, shape[0] * shape[2], shape[1],
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        constexpr T infinity = std::numeric_limits<T>::infinity();
        const T largest = lanes.max(-infinity, [&](std::int64_t c) { return in(r, c); });
        // inf - inf is NaN, so an infinite maximum is the result itself.
        const T shift = std::fabs(largest) == infinity ? T{0} : largest;
        const T total = lanes.sum([&](std::int64_t c) { return math::exp(in(r, c) - shift); });
        lanes.once([&] { out(r) = shift + std::log(total); });
      });
}

template <bool contiguous, class T, class Space>
void backward_kernel(const Space& space, const Tensor& grad_y, const Tensor& x, const Tensor& y,
                     const Shape& shape, bool accumulate, const Tensor& grad_x) {
  const Rows<const T, Space, contiguous> in(x, shape);
  const Rows<T, Space, contiguous> result(grad_x, shape);
  const auto g = flat_view<Space, const T>(grad_y), out = flat_view<Space, const T>(y);
  for_each_row(
      "lockstep::logsumexp_backward", space, shape[0] * shape[2], shape[1],
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        lanes.each([&](std::int64_t c) {
          const T value = g(r) * math::exp(in(r, c) - out(r));
          result(r, c) = accumulate ? result(r, c) + value : value;
        });
      });
}

}  // namespace

void logsumexp_forward(const Tensor& x, int dim, const Tensor& y) {
  dispatch_rows("logsumexp", x, dim,
                [&]<bool contiguous, class T>(const auto& space, const Shape& shape) {
                  forward_kernel<contiguous, T>(space, x, shape, y);
                });
}

void logsumexp_backward(const Tensor& grad_y, const Tensor& x, const Tensor& y, int dim,
                        bool accumulate, const Tensor& grad_x) {
  dispatch_rows("logsumexp", x, dim,
                [&]<bool contiguous, class T>(const auto& space, const Shape& shape) {
                  backward_kernel<contiguous, T>(space, grad_y, x, y, shape, accumulate, grad_x);
                });
}

}  // namespace lockstep
