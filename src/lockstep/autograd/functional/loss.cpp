#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/node.hpp>

namespace lockstep {
namespace {

class NllLossNode : public PooledNode<NllLossNode> {
 public:
  NllLossNode(Tensor target, const LossOptions& options, Tensor divisor)
      : target_(std::move(target)), options_(options), divisor_(std::move(divisor)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      nll_loss_backward(grad_output, divisor_, target_, options_, x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "nll_loss"; }

 private:
  Tensor target_;
  LossOptions options_;
  Tensor divisor_;
};

class CrossEntropyNode : public PooledNode<CrossEntropyNode> {
 public:
  CrossEntropyNode(Tensor target, const LossOptions& options, Tensor divisor, Tensor row_stats)
      : target_(std::move(target)),
        options_(options),
        divisor_(std::move(divisor)),
        row_stats_(std::move(row_stats)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      cross_entropy_backward(grad_output, divisor_, input(0).data(), row_stats_, target_, options_,
                             x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "cross_entropy"; }

 private:
  Tensor target_;
  LossOptions options_;
  Tensor divisor_;
  Tensor row_stats_;
};

/// A loss made of the rows' losses: they themselves, their sum or their mean.
struct Reduced {
  Tensor loss, divisor;

  Reduced(Tensor losses, const Tensor& target, const LossOptions& options) {
    if (options.reduction == Reduction::none) {
      loss = std::move(losses);
      return;
    }
    loss = Tensor::empty({}, losses.dtype(), losses.device());
    divisor = Tensor::empty({}, losses.dtype(), losses.device());
    reduce_loss(losses, target, options, loss, divisor);
  }
};

}  // namespace

Variable nll_loss(const Variable& x, const Tensor& target, const LossOptions& options) {
  check_loss("nll_loss", x.data(), target, options);
  const Tensor losses = Tensor::empty(target.shape(), x.data().dtype(), x.data().device());
  nll_loss_forward(x.data(), target, options, losses);
  Reduced reduced(losses, target, options);
  return record<NllLossNode>(std::move(reduced.loss), {&x}, target, options,
                             std::move(reduced.divisor));
}

Variable cross_entropy(const Variable& x, const Tensor& target, const LossOptions& options) {
  check_loss("cross_entropy", x.data(), target, options);
  const DType dtype = x.data().dtype();
  const Device device = x.data().device();
  const Tensor losses = Tensor::empty(target.shape(), dtype, device);
  Tensor row_stats = Tensor::empty({2, target.numel()}, dtype, device);
  cross_entropy_forward(x.data(), target, options, losses, row_stats);
  Reduced reduced(losses, target, options);
  return record<CrossEntropyNode>(std::move(reduced.loss), {&x}, target, options,
                                  std::move(reduced.divisor), std::move(row_stats));
}

}  // namespace lockstep
