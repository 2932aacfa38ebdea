#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/matmul.hpp>

namespace lockstep {
namespace {

class MatmulNode : public PooledNode<MatmulNode> {
 public:
  void backward(const Tensor& grad_output) override {
    if (const auto a = grad_target(0); a.wanted) {
      matmul_backward_a(grad_output, input(1).data(), a.accumulate, a.tensor);
    }
    if (const auto b = grad_target(1); b.wanted) {
      matmul_backward_b(grad_output, input(0).data(), b.accumulate, b.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "matmul"; }
};

}  // namespace

Variable matmul(const Variable& a, const Variable& b) {
  Tensor y = Tensor::empty(matmul_shape(a.data(), b.data()), a.data().dtype(), a.data().device());
  matmul_forward(a.data(), b.data(), y);
  count_flops(2 * y.numel() * a.shape()[-1]);
  return record<MatmulNode>(std::move(y), {&a, &b});
}

Variable bmm(const Variable& a, const Variable& b) {
  if (a.shape().dims() != 3 || b.shape().dims() != 3 || a.shape()[0] != b.shape()[0]) {
    throw ShapeError("bmm of a " + describe(a.data()) + " and b " + describe(b.data()) +
                     ": it takes a [B, n, k] and b [B, k, m]");
  }
  return matmul(a, b);
}

}  // namespace lockstep
