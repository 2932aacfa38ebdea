#include <lockstep/tensor/kernels/reduce/softmax.hpp>

#include <limits>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/reduce/softmax_device.hpp>
#include <lockstep/tensor/kernels/rows_along.hpp>

namespace lockstep {
namespace {

using detail::are_device_rows;
using detail::as_device_rows;
using detail::dispatch_stored_rows;
using detail::Rows;
using detail::write_row;

/// The next row, where elements are contiguous.
template <class T, class Space, bool contiguous>
KOKKOS_FUNCTION const T* next(const Rows<const T, Space, contiguous>& rows, std::int64_t r) {
  return contiguous ? &rows(r, 0) + rows.width : nullptr;
}

/// Adds f(c) to row r of `rows`.
template <class T, class Space, bool contiguous, class F>
KOKKOS_FUNCTION void add(const Lanes<Space>& lanes, const Rows<T, Space, contiguous>& rows,
                         std::int64_t r, const F& f) {
  lanes.each([&](std::int64_t c) {
    rows(r, c) = static_cast<T>(static_cast<SumOf<T>>(rows(r, c)) + f(c));
  });
}

/// log_softmax of a row is its elements less these two numbers.
template <class Wide>
struct LogSum {
  Wide largest, log_sum;
};

template <class T, class Space, bool contiguous>
KOKKOS_FUNCTION LogSum<SumOf<T>> log_sum_of(const Lanes<Space>& lanes,
                                            const Rows<const T, Space, contiguous>& rows,
                                            std::int64_t r) {
  using Wide = SumOf<T>;
  const auto x_at = [&](std::int64_t c) { return static_cast<Wide>(rows(r, c)); };
  const Wide largest = lanes.max(-std::numeric_limits<Wide>::infinity(), x_at);
  const Wide sum = lanes.fetching(next(rows, r)).sum([&](std::int64_t c) {
    return math::exp_or_zero(x_at(c) - largest);
  });
  return {largest, std::log(sum)};
}

/// The same for the argument of log_softmax_backward: x if it has 16 bits, else the result, which
/// needs no subtraction.
template <class T, class Space, bool contiguous>
KOKKOS_FUNCTION LogSum<SumOf<T>> log_sum_of_saved(const Lanes<Space>& lanes,
                                                  const Rows<const T, Space, contiguous>& saved,
                                                  std::int64_t r) {
  if constexpr (sizeof(T) == 2) {
    return log_sum_of(lanes, saved, r);
  } else {
    return {T{0}, T{0}};
  }
}

template <bool contiguous, class T, class Space>
void softmax_forward_kernel(const Space& space, const Tensor& x, const Shape& shape,
                            const Tensor& y) {
  const Rows<const T, Space, contiguous> in(x, shape);
  const Rows<T, Space, contiguous> out(y, shape);
  for_each_row(
      "lockstep::softmax_forward", space, shape[0] * shape[2], shape[1],
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        using Wide = SumOf<T>;
        const auto x_at = [&](std::int64_t c) { return static_cast<Wide>(in(r, c)); };
        const Wide largest = lanes.max(-std::numeric_limits<Wide>::infinity(), x_at);
        const auto power = [&](std::int64_t c) { return math::exp_or_zero(x_at(c) - largest); };
        const auto ahead = lanes.fetching(next(in, r));
        const auto& y = out;  // nvcc: what a lambda captures must not be new within if constexpr
        // Powers of 16 bits would be rounded twice, and a GPU reads faster if a pass writes
        // nothing.
        if constexpr (sizeof(T) == 2 || !is_host_space<Space>) {
          const Wide scale = Wide{1} / ahead.sum(power);
          write_row(lanes, y, r, false, [&](std::int64_t c) { return power(c) * scale; });
        } else {
          const T scale = T{1} / ahead.sum([&](std::int64_t c) { return y(r, c) = power(c); });
          lanes.each([&](std::int64_t c) { y(r, c) *= scale; });
        }
      });
}

template <bool contiguous, class T, class Space>
void softmax_backward_kernel(const Space& space, const Tensor& grad_y, const Tensor& y,
                             const Shape& shape, bool accumulate, const Tensor& grad_x) {
  const Rows<const T, Space, contiguous> g(grad_y, shape), out(y, shape);
  const Rows<T, Space, contiguous> result(grad_x, shape);
  const bool around = streaming::worth_it(grad_x);
  for_each_row(
      "lockstep::softmax_backward", space, shape[0] * shape[2], shape[1],
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        using Wide = SumOf<T>;
        const auto g_at = [&](std::int64_t c) { return static_cast<Wide>(g(r, c)); };
        const auto y_at = [&](std::int64_t c) { return static_cast<Wide>(out(r, c)); };
        const Wide total = lanes.sum([&](std::int64_t c) { return g_at(c) * y_at(c); });
        const auto gradient = [&](std::int64_t c) { return y_at(c) * (g_at(c) - total); };
        if (accumulate) {
          add(lanes, result, r, gradient);
        } else {
          write_row(lanes, result, r, around, gradient);
        }
      });
}

template <bool contiguous, class T, class Space>
void log_softmax_forward_kernel(const Space& space, const Tensor& x, const Shape& shape,
                                const Tensor& y) {
  const Rows<const T, Space, contiguous> in(x, shape);
  const Rows<T, Space, contiguous> out(y, shape);
  const bool around = streaming::worth_it(y);
  for_each_row(
      "lockstep::log_softmax_forward", space, shape[0] * shape[2], shape[1],
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        using Wide = SumOf<T>;
        const LogSum<Wide> sum = log_sum_of(lanes, in, r);
        const Wide largest = sum.largest, log_sum = sum.log_sum;
        const auto element = [&](std::int64_t c) {
          return static_cast<Wide>(in(r, c)) - largest - log_sum;
        };
        write_row(lanes, out, r, around, element);
      });
}

template <bool contiguous, class T, class Space>
void log_softmax_backward_kernel(const Space& space, const Tensor& grad_y, const Tensor& x_or_y,
                                 const Shape& shape, bool accumulate, const Tensor& grad_x) {
  const Rows<const T, Space, contiguous> g(grad_y, shape), saved(x_or_y, shape);
  const Rows<T, Space, contiguous> result(grad_x, shape);
  const bool around = streaming::worth_it(grad_x);
  for_each_row(
      "lockstep::log_softmax_backward", space, shape[0] * shape[2], shape[1],
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        using Wide = SumOf<T>;
        const auto g_at = [&](std::int64_t c) { return static_cast<Wide>(g(r, c)); };
        const Wide total = lanes.sum(g_at);
        const LogSum<Wide> sum = log_sum_of_saved(lanes, saved, r);
        const Wide largest = sum.largest, log_sum = sum.log_sum;
        const auto gradient = [&](std::int64_t c) {
          const Wide y_at = static_cast<Wide>(saved(r, c)) - largest - log_sum;
          return g_at(c) - math::exp_or_zero(y_at) * total;
        };
        if (accumulate) {
          add(lanes, result, r, gradient);
        } else {
          write_row(lanes, result, r, around, gradient);
        }
      });
}

}  // namespace

void softmax_forward(const Tensor& x, int dim, const Tensor& y) {
  if (are_device_rows(x, dim)) {
    return detail::softmax_device_forward(as_device_rows(x, dim), as_device_rows(y, dim));
  }
  dispatch_stored_rows("softmax", x, dim,
                       [&]<bool contiguous, class T>(const auto& space, const Shape& shape) {
                         softmax_forward_kernel<contiguous, T>(space, x, shape, y);
                       });
}

void softmax_backward(const Tensor& grad_y, const Tensor& y, int dim, bool accumulate,
                      const Tensor& grad_x) {
  if (are_device_rows(y, dim)) {
    return detail::softmax_device_backward(as_device_rows(grad_y, dim), as_device_rows(y, dim),
                                           accumulate, as_device_rows(grad_x, dim));
  }
  dispatch_stored_rows(
      "softmax", y, dim, [&]<bool contiguous, class T>(const auto& space, const Shape& shape) {
        softmax_backward_kernel<contiguous, T>(space, grad_y, y, shape, accumulate, grad_x);
      });
}

void log_softmax_forward(const Tensor& x, int dim, const Tensor& y) {
  if (are_device_rows(x, dim)) {
    return detail::log_softmax_device_forward(as_device_rows(x, dim), as_device_rows(y, dim));
  }
  dispatch_stored_rows("log_softmax", x, dim,
                       [&]<bool contiguous, class T>(const auto& space, const Shape& shape) {
                         log_softmax_forward_kernel<contiguous, T>(space, x, shape, y);
                       });
}

void log_softmax_backward(const Tensor& grad_y, const Tensor& x_or_y, int dim, bool accumulate,
                          const Tensor& grad_x) {
  if (are_device_rows(x_or_y, dim)) {
    return detail::log_softmax_device_backward(as_device_rows(grad_y, dim),
                                               as_device_rows(x_or_y, dim), accumulate,
                                               as_device_rows(grad_x, dim));
  }
  dispatch_stored_rows("log_softmax", x_or_y, dim,
                       [&]<bool contiguous, class T>(const auto& space, const Shape& shape) {
                         log_softmax_backward_kernel<contiguous, T>(space, grad_y, x_or_y, shape,
                                                                    accumulate, grad_x);
                       });
}

}  // namespace lockstep
