#include <lockstep/tensor/kernels/linalg/linear.hpp>

#include <algorithm>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/math/product.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep {
namespace {

/// x[..., width] as (rows, width).
Tensor as_matrix(const Tensor& x) {
  const std::int64_t width = x.size(-1);
  std::int64_t rows = 1;
  for (int d = 0; d + 1 < x.dims(); ++d) rows *= x.size(d);
  return x.reshape({rows, width});
}

/// Of a tensor of two dimensions.
math::Matrices matrix(const Tensor& x, bool transposed = false) {
  return {x, std::max<std::int64_t>(x.size(1), 1), transposed};
}

math::ProductSize weight_size(const Tensor& rows, bool accumulate, const Tensor& grad_weight) {
  return {.m = grad_weight.size(0),
          .n = grad_weight.size(1),
          .k = rows.size(0),
          .accumulate = accumulate};
}

// Sums 256 columns side by side and 64 rows at a time. Rows are read in memory order, and long sums
// lose no more than short ones. x is of type T, the sums of type Sum.
template <class T, class Sum, class Space>
void sum_rows_kernel(const Space& space, const Tensor& x, bool accumulate, const Tensor& sums) {
  using Wide = SumOf<T>;
  constexpr std::int64_t columns = 256, block = 64;
  const auto in = view<Space, const T, 2>(x);
  const auto out = view<Space, Sum, 1>(sums);
  const std::int64_t rows = x.size(0), width = x.size(1);
  for_each(
      "lockstep::linear_backward_bias", space, (width + columns - 1) / columns,
      KOKKOS_LAMBDA(std::int64_t strip) {
        const std::int64_t first = strip * columns;
        const std::int64_t count = width - first < columns ? width - first : columns;
        Wide total[columns] = {};
        for (std::int64_t begin = 0; begin < rows; begin += block) {
          const std::int64_t end = begin + block < rows ? begin + block : rows;
          Wide part[columns] = {};
          for (std::int64_t r = begin; r < end; ++r) {
#pragma omp simd
            for (std::int64_t c = 0; c < count; ++c) part[c] += static_cast<Wide>(in(r, first + c));
          }
          for (std::int64_t c = 0; c < columns; ++c) total[c] += part[c];
        }
        for (std::int64_t c = 0; c < count; ++c) {
          const Wide old = accumulate ? static_cast<Wide>(out(first + c)) : Wide{0};
          out(first + c) = static_cast<Sum>(old + total[c]);
        }
      });
}

}  // namespace

Shape linear_shape(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const bool fits =
      x.dims() >= 1 && weight.dims() == 2 && x.size(-1) == weight.size(1) &&
      x.dtype() == weight.dtype() &&
      (!bias.defined() ||
       (bias.shape() == Shape{weight.size(0)} &&
        (bias.dtype() == x.dtype() || (is_half(x.dtype()) && bias.dtype() == DType::f32))));
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
  math::product("linear", {.m = out.size(0), .n = weight.size(0), .k = rows.size(1)}, matrix(rows),
                matrix(weight, true), matrix(out), bias);
}

bool linear_gelu_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const Tensor& pre, const Tensor& y) {
  const Tensor rows = as_matrix(x), before = as_matrix(pre), out = as_matrix(y);
  return math::product_with_gelu("linear", {.m = out.size(0), .n = out.size(1), .k = rows.size(1)},
                                 matrix(rows), matrix(weight, true), matrix(before), matrix(out),
                                 bias);
}

bool gelu_linear_backward_input(const Tensor& grad_y, const Tensor& weight, const Tensor& pre,
                                const Tensor& grad_pre) {
  const Tensor g = as_matrix(grad_y), before = as_matrix(pre), to = as_matrix(grad_pre);
  return math::product_with_gelu_slope("linear",
                                       {.m = to.size(0), .n = to.size(1), .k = weight.size(0)},
                                       matrix(g), matrix(weight), matrix(before), matrix(to));
}

void linear_backward_input(const Tensor& grad_y, const Tensor& weight, bool accumulate,
                           const Tensor& grad_x) {
  const Tensor g = as_matrix(grad_y), to = as_matrix(grad_x);
  math::product("linear",
                {.m = to.size(0), .n = to.size(1), .k = weight.size(0), .accumulate = accumulate},
                matrix(g), matrix(weight), matrix(to));
}

void linear_backward_weight(const Tensor& grad_y, const Tensor& x, bool accumulate,
                            const Tensor& grad_weight) {
  const Tensor g = as_matrix(grad_y), rows = as_matrix(x);
  math::product("linear", weight_size(rows, accumulate, grad_weight), matrix(g, true), matrix(rows),
                matrix(grad_weight));
}

bool linear_backward_weight_and_bias(const Tensor& grad_y, const Tensor& x, bool accumulate,
                                     const Tensor& grad_weight, const Tensor& grad_bias) {
  const Tensor g = as_matrix(grad_y), rows = as_matrix(x);
  return math::product_with_row_sums("linear", weight_size(rows, accumulate, grad_weight),
                                     matrix(g, true), matrix(rows), matrix(grad_weight), grad_bias);
}

void linear_backward_bias(const Tensor& grad_y, bool accumulate, const Tensor& grad_bias) {
  const Tensor rows = as_matrix(grad_y);
  if (math::device_math(grad_y.device())) {
    // A product with a vector of ones uses threads for every part of long columns.
    const PrecisionGuard as_they_are(Precision::f32);
    const Tensor ones = Tensor::full({1, rows.size(0)}, 1, grad_y.dtype(), grad_y.device());
    math::product(
        "linear",
        {.m = 1, .n = rows.size(1), .k = rows.size(0), .accumulate = accumulate, .full_f32 = true},
        matrix(ones), matrix(rows), {grad_bias, rows.size(1)});
    return;
  }
  dispatch(current_stream(grad_y.device()), [&](const auto& space) {
    dispatch_stored(grad_y.dtype(), "linear", [&]<class T>() {
      if (grad_bias.dtype() == dtype_of<T>) {
        sum_rows_kernel<T, T>(space, rows, accumulate, grad_bias);
      } else {
        sum_rows_kernel<T, SumOf<T>>(space, rows, accumulate, grad_bias);
      }
    });
  });
}

}  // namespace lockstep
