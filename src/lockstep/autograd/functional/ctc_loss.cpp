#include <algorithm>
#include <cmath>
#include <string>

#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/ctc_loss.hpp>

namespace lockstep {
namespace {

class CtcLossNode : public PooledNode<CtcLossNode> {
 public:
  /// factors[n] * the result's gradient is that of sample n's loss.
  CtcLossNode(CtcTargets targets, Tensor alpha, Tensor losses, std::vector<double> factors,
              bool each)
      : targets_(std::move(targets)),
        alpha_(std::move(alpha)),
        losses_(std::move(losses)),
        factors_(std::move(factors)),
        each_(each) {}

  void backward(const Tensor& grad_output) override {
    const auto x = grad_target(0);
    if (!x.wanted) return;
    auto grads = grad_output.to(DType::f64).to_vector<double>();
    std::vector<double> of_sample(factors_.size());
    for (std::size_t n = 0; n < of_sample.size(); ++n) {
      of_sample[n] = factors_[n] * grads[each_ ? n : 0];
    }
    ctc_backward(Tensor::from(of_sample, losses_.shape()).to(losses_.dtype()), input(0).data(),
                 targets_, alpha_, losses_, x.accumulate, x.tensor);
  }
  [[nodiscard]] const char* name() const noexcept override { return "ctc_loss"; }

 private:
  CtcTargets targets_;
  Tensor alpha_, losses_;
  std::vector<double> factors_;
  bool each_;
};

[[noreturn]] void refuse(const std::string& message) { throw InputError("ctc_loss: " + message); }

std::vector<std::int64_t> whole_numbers(const Tensor& t) {
  return t.to(DType::i64).to_vector<std::int64_t>();
}

CtcTargets checked(const Tensor& x, const Tensor& targets, const Tensor& input_lengths,
                   const Tensor& target_lengths, std::int64_t blank) {
  const bool padded = targets.dims() == 2;
  if (x.dims() != 3 || (targets.dims() != 1 && !padded) ||
      (padded && targets.size(0) != x.size(1)) || input_lengths.shape() != Shape{x.size(1)} ||
      target_lengths.shape() != Shape{x.size(1)} || x.device().type != DeviceType::host) {
    throw ShapeError("ctc_loss of x " + describe(x) + ", targets " + describe(targets) +
                     ", input_lengths " + describe(input_lengths) + " and target_lengths " +
                     describe(target_lengths) +
                     ": they are [T, N, C] on the host, [N, S] or all labels in one row, [N], [N]");
  }
  const std::int64_t frames = x.size(0), samples = x.size(1), classes = x.size(2);
  if (blank < 0 || blank >= classes) {
    refuse("blank = " + std::to_string(blank) + " is none of " + std::to_string(classes) +
           " classes");
  }
  CtcTargets result;
  result.blank = blank;
  result.frames = whole_numbers(input_lengths);
  const auto lengths = whole_numbers(target_lengths), labels = whole_numbers(targets);
  const std::int64_t room = padded ? targets.size(1) : targets.size(0);
  result.first.push_back(0);
  for (std::int64_t n = 0; n < samples; ++n) {
    const auto at = static_cast<std::size_t>(n);
    if (result.frames[at] < 1 || result.frames[at] > frames) {
      refuse("input length " + std::to_string(result.frames[at]) + " of sample " +
             std::to_string(n) + " must be between 1 and " + std::to_string(frames));
    }
    const std::int64_t begin = padded ? n * room : result.first.back();
    const std::int64_t left = padded ? room : room - begin;
    if (lengths[at] < 0 || lengths[at] > left) {
      refuse("target length " + std::to_string(lengths[at]) + " of sample " + std::to_string(n) +
             " must be between 0 and the " + std::to_string(left) + " labels there are");
    }
    for (std::int64_t s = begin; s < begin + lengths[at]; ++s) {
      const std::int64_t label = labels[static_cast<std::size_t>(s)];
      if (label < 0 || label >= classes || label == blank) {
        refuse("label " + std::to_string(label) + " of sample " + std::to_string(n) +
               " is no class other than the blank");
      }
      result.labels.push_back(label);
    }
    result.first.push_back(result.first.back() + lengths[at]);
  }
  return result;
}

}  // namespace

Variable ctc_loss(const Variable& log_probs, const Tensor& targets, const Tensor& input_lengths,
                  const Tensor& target_lengths, std::int64_t blank, Reduction reduction,
                  bool zero_infinity) {
  const Tensor& x = log_probs.data();
  CtcTargets labels = checked(x, targets, input_lengths, target_lengths, blank);
  const std::int64_t samples = x.size(1);
  const Tensor alpha =
      Tensor::empty({samples, x.size(0), 2 * labels.longest() + 1}, x.dtype(), x.device());
  const Tensor losses = Tensor::empty({samples}, x.dtype(), x.device());
  ctc_forward(x, labels, alpha, losses);

  auto values = losses.to(DType::f64).to_vector<double>();
  std::vector<double> factors(values.size(), 1.0);
  double total = 0.0;
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (zero_infinity && std::isinf(values[n])) values[n] = 0.0;
    if (reduction == Reduction::mean) {
      const auto length = std::max<std::int64_t>(1, labels.first[n + 1] - labels.first[n]);
      factors[n] = 1.0 / static_cast<double>(length * samples);
    }
    total += values[n] * factors[n];
  }
  const bool each = reduction == Reduction::none;
  Tensor result = each ? Tensor::from(values, {samples}).to(x.dtype())
                       : Tensor::full({}, total, x.dtype(), x.device());
  return record<CtcLossNode>(std::move(result), {&log_probs}, std::move(labels), alpha, losses,
                             std::move(factors), each);
}

}  // namespace lockstep
