#include <lockstep/autograd/functional/ctc_loss.hpp>

#include <lockstep/autograd/node.hpp>
#include <lockstep/tensor/kernels/loss/ctc_loss.hpp>

namespace lockstep {
namespace {

class CtcLossNode : public PooledNode<CtcLossNode> {
 public:
  /// The gradient of sample n's loss is factors[n] times the result's gradient.
  CtcLossNode(CtcTargets targets, Tensor alpha, Tensor losses, Tensor factors)
      : targets_(std::move(targets)),
        alpha_(std::move(alpha)),
        losses_(std::move(losses)),
        factors_(std::move(factors)) {}

  void backward(const Tensor& grad_output) override {
    const auto x = grad_target(0);
    if (!x.wanted) return;
    const Tensor of_sample = factors_.clone();
    of_sample *= grad_output.to(DType::f64);  // one for each sample, or one for all
    ctc_backward(of_sample.to(losses_.dtype()), input(0).data(), targets_, alpha_, losses_,
                 x.accumulate, x.tensor);
  }
  [[nodiscard]] const char* name() const noexcept override { return "ctc_loss"; }

 private:
  CtcTargets targets_;
  Tensor alpha_, losses_, factors_;
};

}  // namespace

Variable ctc_loss(const Operand& log_probs, const Tensor& targets, const Tensor& input_lengths,
                  const Tensor& target_lengths, std::int64_t blank, Reduction reduction,
                  bool zero_infinity) {
  const Tensor& x = log_probs.data();
  CtcTargets labels = ctc_targets(x, targets, input_lengths, target_lengths, blank);
  const Shape samples{x.size(1)};
  const Tensor losses = Tensor::empty(samples, x.dtype(), x.device());
  Tensor alpha = ctc_forward(x, labels, losses);
  Tensor factors = Tensor::empty(samples, DType::f64, x.device());
  Tensor result =
      Tensor::empty(reduction == Reduction::none ? samples : Shape{}, x.dtype(), x.device());
  ctc_reduce(losses, labels, reduction, zero_infinity, factors, result);
  return record<CtcLossNode>(std::move(result), {&log_probs}, std::move(labels), std::move(alpha),
                             losses, std::move(factors));
}

}  // namespace lockstep
