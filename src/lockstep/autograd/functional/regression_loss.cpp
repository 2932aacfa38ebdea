#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/tensor/kernels/reduction.hpp>
#include <lockstep/tensor/kernels/regression_loss.hpp>

namespace lockstep {
namespace {

using Backward = void (*)(const Tensor& grad_loss, double divisor, const Tensor& x,
                          const Tensor& target, bool accumulate, const Tensor& grad_x);

class RegressionLossNode : public PooledNode<RegressionLossNode> {
 public:
  RegressionLossNode(const char* name, Backward gradient, Tensor target, double divisor)
      : name_(name), gradient_(gradient), target_(std::move(target)), divisor_(divisor) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      gradient_(grad_output, divisor_, input(0).data(), target_, x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return name_; }

 private:
  const char* name_;
  Backward gradient_;
  Tensor target_;
  double divisor_;
};

Variable finish(const char* name, Backward gradient, const Variable& x, const Tensor& target,
                Tensor losses, Reduction reduction) {
  const double divisor = reduction == Reduction::mean ? static_cast<double>(losses.numel()) : 1.0;
  if (reduction != Reduction::none) {
    const Tensor total = Tensor::empty({}, losses.dtype(), losses.device());
    reduce_sum(losses, divisor, false, total);
    losses = total;
  }
  return record<RegressionLossNode>(std::move(losses), {&x}, name, gradient, target, divisor);
}

}  // namespace

Variable mse_loss(const Variable& x, const Tensor& target, Reduction reduction) {
  check_regression("mse_loss", x.data(), target);
  const Tensor losses = Tensor::empty(x.shape(), x.data().dtype(), x.data().device());
  mse_loss_forward(x.data(), target, losses);
  return finish("mse_loss", mse_loss_backward, x, target, losses, reduction);
}

Variable binary_cross_entropy_with_logits(const Variable& x, const Tensor& target,
                                          Reduction reduction) {
  constexpr const char* name = "binary_cross_entropy_with_logits";
  check_regression(name, x.data(), target);
  const Tensor losses = Tensor::empty(x.shape(), x.data().dtype(), x.data().device());
  binary_cross_entropy_forward(x.data(), target, losses);
  return finish(name, binary_cross_entropy_backward, x, target, losses, reduction);
}

}  // namespace lockstep
