#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/cumsum.hpp>
#include <lockstep/tensor/kernels/sort.hpp>

namespace lockstep {
namespace {

class CumsumNode : public PooledNode<CumsumNode> {
 public:
  explicit CumsumNode(int dim) : dim_(dim) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      lockstep::cumsum(grad_output, dim_, true, x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "cumsum"; }

 private:
  int dim_;
};

/// sort and topk: each element of the result is one of x's.
class OrderNode : public PooledNode<OrderNode> {
 public:
  OrderNode(const char* name, int dim, Tensor indices)
      : name_(name), dim_(dim), indices_(std::move(indices)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      scatter_along(grad_output, indices_, dim_, x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return name_; }

 private:
  const char* name_;
  int dim_;
  Tensor indices_;
};

}  // namespace

Variable cumsum(const Variable& x, int dim) {
  const int along = resolve_dim(x.shape(), dim);
  Tensor y = Tensor::empty(x.shape(), x.data().dtype(), x.data().device());
  cumsum(x.data(), along, false, false, y);
  return record<CumsumNode>(std::move(y), {&x}, along);
}

OrderResult sort(const Variable& x, int dim, bool descending) {
  const int along = resolve_dim(x.shape(), dim);
  const Tensor values = Tensor::empty(x.shape(), x.data().dtype(), x.data().device());
  const Tensor indices = Tensor::empty(x.shape(), DType::i64, x.data().device());
  sort_along(x.data(), along, descending, values, indices);
  return {record<OrderNode>(values, {&x}, "sort", along, indices), indices};
}

OrderResult topk(const Variable& x, std::int64_t k, int dim, bool largest) {
  const int along = resolve_dim(x.shape(), dim);
  if (k < 0 || k > x.shape()[along]) {
    throw ShapeError("topk of " + describe(x.data()) + " along dimension " + std::to_string(dim) +
                     ": k = " + std::to_string(k) + " must be between 0 and its extent");
  }
  const Shape shape = with_extent(x.shape(), along, k);
  const Tensor values = Tensor::empty(shape, x.data().dtype(), x.data().device());
  const Tensor indices = Tensor::empty(shape, DType::i64, x.data().device());
  topk_along(x.data(), along, largest, values, indices);
  return {record<OrderNode>(values, {&x}, "topk", along, indices), indices};
}

}  // namespace lockstep
