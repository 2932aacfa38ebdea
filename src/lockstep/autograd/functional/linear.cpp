#include <lockstep/autograd/functional/linear.hpp>

#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/tensor/kernels/linear.hpp>

namespace lockstep {
namespace {

class LinearNode : public PooledNode<LinearNode> {
 public:
  void backward(const Tensor& grad_output) override {
    if (const auto bias = grad_target(2); bias.wanted) {
      linear_backward_bias(grad_output, bias.accumulate, bias.tensor);
    }
    if (const auto weight = grad_target(1); weight.wanted) {
      linear_backward_weight(grad_output, input(0).data(), weight.accumulate, weight.tensor);
    }
    if (const auto x = grad_target(0); x.wanted) {
      linear_backward_input(grad_output, input(1).data(), x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "linear"; }
};

}  // namespace

Variable linear(const Variable& x, const Variable& weight, const Variable& bias) {
  const Tensor bias_data = bias.defined() ? bias.data() : Tensor();
  Tensor y = Tensor::empty(linear_shape(x.data(), weight.data(), bias_data), x.data().dtype(),
                           x.data().device());
  linear_forward(x.data(), weight.data(), bias_data, y);
  count_flops(2 * y.numel() * weight.shape()[1]);
  return record<LinearNode>(std::move(y), {&x, &weight, &bias});
}

}  // namespace lockstep
