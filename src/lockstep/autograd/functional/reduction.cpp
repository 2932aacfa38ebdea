#include <lockstep/autograd/functional/reduction.hpp>

#include <algorithm>
#include <string>

#include <lockstep/autograd/accumulate.hpp>
#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/expand.hpp>
#include <lockstep/autograd/functional/gather_map.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/functional/sum_map.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/broadcast.hpp>
#include <lockstep/tensor/kernels/data/index.hpp>
#include <lockstep/tensor/kernels/elementwise/arithmetic.hpp>
#include <lockstep/tensor/kernels/elementwise/copy.hpp>
#include <lockstep/tensor/kernels/reduce/logsumexp.hpp>
#include <lockstep/tensor/kernels/reduce/reduction.hpp>

namespace lockstep {
namespace {

/// The shapes of a reduction's result: with reduced dimensions of extent 1, and as requested.
struct ReducedShape {
  Shape kept, result;

  ReducedShape(const Shape& shape, const Dims& dims, bool keepdim) {
    const Dims reduced = resolve_dims(shape, dims);
    std::array<std::int64_t, Shape::max_dims> with{}, without{};
    std::size_t count = 0;
    for (int d = 0; d < shape.dims(); ++d) {
      const bool kept_dim = std::ranges::find(reduced, d) == reduced.end();
      with[static_cast<std::size_t>(d)] = kept_dim ? shape[d] : 1;
      if (kept_dim) without[count++] = shape[d];
    }
    kept =
        Shape(std::span<const std::int64_t>(with.data(), static_cast<std::size_t>(shape.dims())));
    result = keepdim ? kept : Shape(std::span<const std::int64_t>(without.data(), count));
  }
};

Tensor empty_like(const Tensor& x, const Shape& shape, DType dtype) {
  return Tensor::empty(shape, dtype, x.device());
}
Tensor empty_like(const Tensor& x, const Shape& shape) { return empty_like(x, shape, x.dtype()); }

/// grad_x = [x = y] grad_y / (number of equal elements in the reduction).
class AmaxNode : public PooledNode<AmaxNode> {
 public:
  explicit AmaxNode(Tensor y) : y_(std::move(y)) {}

  void backward(const Tensor& grad_output) override {
    const auto x = grad_target(0);
    if (!x.wanted) return;
    const Shape& kept = y_.shape();
    const Tensor equal = empty_like(x.tensor, x.tensor.shape());
    arithmetic(Arithmetic::equal, input(0).data(), y_, false, equal);
    const Tensor count = empty_like(y_, kept), share = empty_like(y_, kept);
    reduce_sum(equal, 1, false, count);
    arithmetic(Arithmetic::divide, grad_output.reshape(kept), count, false, share);
    arithmetic(Arithmetic::multiply, equal, share, x.accumulate, x.tensor);
  }
  void differentiate(Differentiation& d) override {
    const Tensor equal = empty_like(input(0).data(), input(0).shape());
    arithmetic(Arithmetic::equal, input(0).data(), y_, false, equal);
    const Variable chosen(equal);
    d.give(0, reshape(d.grad_output(), y_.shape()) * (chosen / sum_to_size(chosen, y_.shape())));
  }
  [[nodiscard]] const char* name() const noexcept override { return "amax"; }

 private:
  Tensor y_;  ///< with reduced dimensions of extent 1
};

class LogsumexpNode : public PooledNode<LogsumexpNode> {
 public:
  LogsumexpNode(int dim, Tensor y) : dim_(dim), y_(std::move(y)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      logsumexp_backward(grad_output, input(0).data(), y_, dim_, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    const Variable& x = input(0);
    const Shape kept = with_extent(x.shape(), resolve_dim(x.shape(), dim_), 1);
    d.give(0, reshape(d.grad_output(), kept) * exp(x - reshape(d.output(), kept)));
  }
  [[nodiscard]] const char* name() const noexcept override { return "logsumexp"; }

 private:
  int dim_;
  Tensor y_;
};

Variable sum_over(const char* name, const Variable& input, const ReducedShape& shape,
                  double divisor) {
  return natively_outside_autocast(
      [&](const Variable& x) {
        const Tensor y = empty_like(x.data(), shape.kept);
        reduce_sum(x.data(), divisor, false, y);
        return record<LinearMapNode<detail::SumMap>>(y.reshape(shape.result), {&x},
                                                     detail::SumMap{name, shape.kept, divisor});
      },
      input);
}

void expect_elements(const char* operation, const Tensor& x, const Shape& kept) {
  if (x.numel() == 0 && kept.numel() > 0) {
    throw ShapeError(std::string(operation) + " of " + describe(x) +
                     ": a dimension without elements has no largest one");
  }
}

}  // namespace

Variable sum(const Variable& x, const Dims& dims, bool keepdim) {
  return sum_over("sum", x, ReducedShape(x.shape(), dims, keepdim), 1);
}

Variable mean(const Variable& x, const Dims& dims, bool keepdim) {
  const ReducedShape shape(x.shape(), dims, keepdim);
  std::int64_t count = 1;
  for (int d = 0; d < x.shape().dims(); ++d) {
    if (shape.kept[d] != x.shape()[d]) count *= x.shape()[d];
  }
  return sum_over("mean", x, shape, static_cast<double>(count));
}

Variable amax(const Operand& x, const Dims& dims, bool keepdim) {
  const ReducedShape shape(x.shape(), dims, keepdim);
  expect_elements("amax", x.data(), shape.kept);
  const Tensor y = empty_like(x.data(), shape.kept);
  reduce_max(x.data(), y);
  return record<AmaxNode>(y.reshape(shape.result), {&x}, y);
}

MaxResult max(const Operand& x, int dim, bool keepdim) {
  const ReducedShape shape(x.shape(), {dim}, keepdim);
  expect_elements("max", x.data(), shape.kept);
  const int along = resolve_dim(x.shape(), dim);
  const Tensor values = empty_like(x.data(), shape.kept);
  const Tensor indices = empty_like(x.data(), shape.kept, DType::i64);
  reduce_max(x.data(), values);
  find_along(x.data(), along, values, indices);
  return {record<LinearMapNode<detail::GatherMap>>(values.reshape(shape.result), {&x},
                                                   detail::GatherMap{"max", along, indices}),
          indices.reshape(shape.result)};
}

Variable logsumexp(const Operand& x, int dim, bool keepdim) {
  const ReducedShape shape(x.shape(), {dim}, keepdim);
  const Tensor y = empty_like(x.data(), shape.result);
  logsumexp_forward(x.data(), dim, y);
  return record<LogsumexpNode>(y, {&x}, dim, y);
}

Tensor argmax(const Operand& x, int dim, bool keepdim) {
  const NoGradGuard no_grad;
  return max(x, dim, keepdim).indices;
}

Tensor argmax(const Operand& x) { return argmax(reshape(x, {x.shape().numel()}), 0); }

Tensor argmin(const Operand& x, int dim, bool keepdim) {
  const NoGradGuard no_grad;
  return max(-x, dim, keepdim).indices;
}

Tensor argmin(const Operand& x) { return argmin(reshape(x, {x.shape().numel()}), 0); }

}  // namespace lockstep
