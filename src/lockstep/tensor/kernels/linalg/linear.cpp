#include <lockstep/tensor/kernels/linalg/linear.hpp>

#include <algorithm>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>
#include <lockstep/tensor/math/gemm.hpp>

namespace lockstep {
namespace {

/// x[..., width] as (rows, width).
Tensor as_matrix(const Tensor& x) {
  const std::int64_t width = x.size(-1);
  std::int64_t rows = 1;
  for (int d = 0; d + 1 < x.dims(); ++d) rows *= x.size(d);
  return x.reshape({rows, width});
}

template <class T>
math::Matrix<T> matrix(const HostArray& x, bool transposed = false) {
  return {static_cast<const T*>(x.data()), std::max<std::int64_t>(x.size(1), 1), transposed};
}

/// c (+)= a b.
template <class T>
void multiply(const math::Matrix<T>& a, const math::Matrix<T>& b, std::int64_t k, bool accumulate,
              const HostArray& c) {
  using Sum = SumOf<T>;
  math::gemm(c.size(0), c.size(1), k, a, b, accumulate ? Sum{1} : Sum{0},
             static_cast<Sum*>(c.data()), std::max<std::int64_t>(c.size(1), 1));
}

template <class T, class Space>
void fill_rows_kernel(const Space& space, const Tensor& bias, const Tensor& y) {
  const auto b = view<Space, const T, 1>(bias);
  const auto out = view<Space, T, 2>(y);
  for_each_row(
      "lockstep::linear_bias", space, y.size(0), y.size(1),
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        lanes.each([&](std::int64_t c) { out(r, c) = b(c); });
      });
}

// Columns are summed 256 side by side and 64 rows at a time: rows are read as they lie in memory,
// and long sums lose no more than short ones.
template <class T, class Space>
void sum_rows_kernel(const Space& space, const Tensor& x, bool accumulate, const Tensor& sums) {
  constexpr std::int64_t columns = 256, block = 64;
  const auto in = view<Space, const T, 2>(x);
  const auto out = view<Space, T, 1>(sums);
  const std::int64_t rows = x.size(0), width = x.size(1);
  for_each(
      "lockstep::linear_backward_bias", space, (width + columns - 1) / columns,
      KOKKOS_LAMBDA(std::int64_t strip) {
        const std::int64_t first = strip * columns;
        const std::int64_t count = width - first < columns ? width - first : columns;
        T total[columns] = {};
        for (std::int64_t begin = 0; begin < rows; begin += block) {
          const std::int64_t end = begin + block < rows ? begin + block : rows;
          T part[columns] = {};
          for (std::int64_t r = begin; r < end; ++r) {
#pragma omp simd
            for (std::int64_t c = 0; c < count; ++c) part[c] += in(r, first + c);
          }
          for (std::int64_t c = 0; c < columns; ++c) total[c] += part[c];
        }
        for (std::int64_t c = 0; c < count; ++c) {
          out(first + c) = (accumulate ? out(first + c) : T{0}) + total[c];
        }
      });
}

}  // namespace

Shape linear_shape(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const bool fits =
      x.dims() >= 1 && weight.dims() == 2 && x.size(-1) == weight.size(1) &&
      x.dtype() == weight.dtype() &&
      (!bias.defined() || (bias.shape() == Shape{weight.size(0)} && bias.dtype() == x.dtype()));
  if (!fits) {
    throw ShapeError("linear of x " + describe(x) + " with weight " + describe(weight) +
                     (bias.defined() ? " and bias " + describe(bias) : "") +
                     ": it takes x [..., in], weight [out, in], bias [out] of one dtype");
  }
  std::array<std::int64_t, Shape::max_dims> extents{};
  std::ranges::copy(x.shape(), extents.begin());
  extents[static_cast<std::size_t>(x.dims() - 1)] = weight.size(0);
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(x.dims())));
}

void linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  const Tensor rows = as_matrix(x), out = as_matrix(y);
  const bool rounded = is_half(x.dtype());
  if (bias.defined() && !rounded) {
    dispatch(current_stream(x.device()), [&](const auto& space) {
      dispatch_floating(y.dtype(), "linear",
                        [&]<class T>() { fill_rows_kernel<T>(space, bias, out); });
    });
  }
  dispatch_operands(x.dtype(), "linear", [&]<class T>() {
    host_task(
        "linear",
        [](const HostArray& x, const HostArray& weight, const HostArray& bias, const HostArray& y) {
          const auto a = matrix<T>(x), b = matrix<T>(weight, true);
          if constexpr (sizeof(T) == 2) {
            math::gemm(y.size(0), y.size(1), x.size(1), a, b, 0.0F, static_cast<float*>(y.data()),
                       std::max<std::int64_t>(y.size(1), 1),
                       static_cast<const float*>(bias.data()));
          } else {
            multiply<T>(a, b, x.size(1), bias.defined(), y);
          }
        },
        rows, weight, bias, out);
  });
}

void linear_backward_input(const Tensor& grad_y, const Tensor& weight, bool accumulate,
                           const Tensor& grad_x) {
  dispatch_operands(grad_y.dtype(), "linear", [&]<class T>() {
    host_task(
        "linear",
        [accumulate](const HostArray& grad_y, const HostArray& weight, const HostArray& grad_x) {
          multiply<T>(matrix<T>(grad_y), matrix<T>(weight), weight.size(0), accumulate, grad_x);
        },
        as_matrix(grad_y), weight, as_matrix(grad_x));
  });
}

void linear_backward_weight(const Tensor& grad_y, const Tensor& x, bool accumulate,
                            const Tensor& grad_weight) {
  dispatch_operands(x.dtype(), "linear", [&]<class T>() {
    host_task(
        "linear",
        [accumulate](const HostArray& grad_y, const HostArray& x, const HostArray& grad_weight) {
          multiply<T>(matrix<T>(grad_y, true), matrix<T>(x), x.size(0), accumulate, grad_weight);
        },
        as_matrix(grad_y), as_matrix(x), grad_weight);
  });
}

void linear_backward_bias(const Tensor& grad_y, bool accumulate, const Tensor& grad_bias) {
  const Tensor rows = as_matrix(grad_y);
  dispatch(current_stream(grad_y.device()), [&](const auto& space) {
    dispatch_floating(grad_y.dtype(), "linear",
                      [&]<class T>() { sum_rows_kernel<T>(space, rows, accumulate, grad_bias); });
  });
}

}  // namespace lockstep
