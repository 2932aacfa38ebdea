#include <lockstep/autograd/functional/vector_norm.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/rounded_once.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/arithmetic.hpp>
#include <lockstep/tensor/kernels/reduce/vector_norm.hpp>

namespace lockstep {
namespace {

Tensor zeros_of(const Tensor& x) {
  const Tensor equal = Tensor::empty_like(x);
  arithmetic(Arithmetic::equal, x, Tensor::zeros({}, x.dtype(), x.device()), false, equal);
  return equal.to(DType::boolean);
}

/// Norms [rows] of x[rows, width].
class VectorNormNode : public PooledNode<VectorNormNode> {
 public:
  VectorNormNode(Tensor y, double p) : y_(std::move(y)), p_(p) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      vector_norm_backward(grad_output, input(0).data(), y_, p_, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    const Shape column{y_.size(0), 1};
    d.give(0, reshape(d.grad_output(), column) * slope(input(0), reshape(d.output(), column)));
  }
  [[nodiscard]] const char* name() const noexcept override { return "norm"; }

 private:
  /// The derivative by x. It depends on x and y, unless the norm is piecewise linear.
  [[nodiscard]] Variable slope(const Variable& x, const Variable& y) const {
    const auto constant = [&](double p) {
      const Tensor one = Tensor::empty_like(y_), result = Tensor::empty_like(x.data());
      one.fill(1.0);
      vector_norm_backward(one, x.data(), y_, p, false, result);
      return Variable(result);
    };
    if (p_ == 0.0 || p_ == 1.0 || std::isinf(p_)) return constant(p_);
    const Variable divisor = masked_fill(y, zeros_of(y.data()), 1.0);
    if (p_ == 2.0) return masked_fill(x / divisor, zeros_of(y.data()), 0.0);
    const Tensor zeros = zeros_of(x.data());
    const Variable share = masked_fill(abs(x) / divisor, zeros, 1.0);
    return masked_fill(constant(1.0) * pow(share, p_ - 1.0), zeros, 0.0);
  }

  Tensor y_;
  double p_;
};

/// x as [rows, width], with the dimensions `reduced` last, and the shape of one number a row.
struct ReducedRows {
  Variable rows;
  Shape result;
  std::int64_t width = 1;

  ReducedRows(const Variable& x, const Dims& dims, bool keepdim) {
    const Dims reduced = resolve_dims(x.shape(), dims);
    std::array<int, Shape::max_dims> order{};
    std::array<std::int64_t, Shape::max_dims> extents{};
    std::size_t placed = 0, kept = 0;
    const int count = x.shape().dims();
    for (int d = 0; d < count; ++d) {
      const bool reduce = std::ranges::find(reduced, d) != reduced.end();
      if (!reduce) order[placed++] = d;
      if (!reduce || keepdim) extents[kept++] = reduce ? 1 : x.shape()[d];
      if (reduce) width *= x.shape()[d];
    }
    bool in_place = true;
    for (int d = 0; d < count; ++d) {
      if (std::ranges::find(reduced, d) != reduced.end()) order[placed++] = d;
    }
    for (int d = 0; d < count; ++d) in_place = in_place && order[static_cast<std::size_t>(d)] == d;
    result = Shape(std::span<const std::int64_t>(extents.data(), kept));
    const Dims by(std::span<const int>(order.data(), static_cast<std::size_t>(count)));
    rows = reshape(in_place ? x : permute(x, by), {result.numel(), width});
  }
};

double degrees_of_freedom(const Variable& x, const Dims& dims, double correction) {
  const Dims over = resolve_dims(x.shape(), dims);
  std::int64_t count = 1;
  if (x.shape().dims() > 0) {
    for (const int d : over) count *= x.shape()[d];
  }
  return std::max(static_cast<double>(count) - correction, 0.0);
}

Variable norm_in_rows(const Variable& x, double p, const Dims& dims, bool keepdim) {
  const ReducedRows reduced(x, dims, keepdim);
  if (reduced.width == 0 && reduced.result.numel() > 0 && (p < 0.0 || std::isinf(p))) {
    throw ShapeError("norm of " + describe(x.data()) + " with p = " + std::to_string(p) +
                     ": a dimension without elements has no largest and no smallest one");
  }
  const Variable& rows = reduced.rows;
  const Tensor y = Tensor::empty({reduced.result.numel()}, x.data().dtype(), x.data().device());
  vector_norm_forward(rows.data(), p, y);
  return reshape(record<VectorNormNode>(y, {&rows}, y, p), reduced.result);
}

// Multiplies halves element by element, again and again. So each factor's gradient is the product
// of the others, even if one of them is 0.
Variable prod_in_rows(const Variable& x, const Dims& dims, bool keepdim) {
  const ReducedRows reduced(x, dims, keepdim);
  if (reduced.width == 0) {
    return Variable(Tensor::full(reduced.result, 1.0, x.data().dtype(), x.data().device()));
  }
  Variable y = reduced.rows;
  for (std::int64_t width = reduced.width; width > 1; width = y.shape()[1]) {
    const std::int64_t half = width / 2;
    const Variable product = narrow(y, 1, 0, half) * narrow(y, 1, half, half);
    y = width % 2 == 0 ? product : concat({product, narrow(y, 1, 2 * half, 1)}, 1);
  }
  return reshape(y, reduced.result);
}

}  // namespace

Variable norm(const Operand& x, double p, const Dims& dims, bool keepdim) {
  if (std::isnan(p)) throw InputError("norm: p is not a number");
  return detail::rounded_once(x,
                              [&](const Variable& v) { return norm_in_rows(v, p, dims, keepdim); });
}

Variable var(const Operand& x, const Dims& dims, double correction, bool keepdim) {
  return detail::rounded_once(x, [&](const Variable& v) {
    return sum(pow(v - mean(v, dims, true), 2.0), dims, keepdim) /
           degrees_of_freedom(v, dims, correction);
  });
}

Variable std(const Operand& x, const Dims& dims, double correction, bool keepdim) {
  return detail::rounded_once(x, [&](const Variable& v) {
    const double freedom = degrees_of_freedom(v, dims, correction);
    const Variable centred = v - mean(v, dims, true);
    if (freedom > 0.0) return norm_in_rows(centred, 2.0, dims, keepdim) / std::sqrt(freedom);
    // The gradient is NaN. That of a norm would be 0 where the norm is.
    return sqrt(sum(pow(centred, 2.0), dims, keepdim) / freedom);
  });
}

Variable prod(const Operand& x, const Dims& dims, bool keepdim) {
  return detail::rounded_once(x, [&](const Variable& v) { return prod_in_rows(v, dims, keepdim); });
}

}  // namespace lockstep
