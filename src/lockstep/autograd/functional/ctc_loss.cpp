#include <lockstep/autograd/functional/ctc_loss.hpp>

#include <algorithm>
#include <cmath>
#include <string>

#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/loss/ctc_loss.hpp>

namespace lockstep {
namespace {

double* doubles(const Tensor& t) { return static_cast<double*>(t.data()); }
std::int64_t* whole_numbers(const Tensor& t) { return static_cast<std::int64_t*>(t.data()); }

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

[[noreturn]] void refuse(const std::string& message) { throw InputError("ctc_loss: " + message); }

/// The targets, copied to the host from any device, and checked.
CtcTargets checked(const Tensor& x, const Tensor& targets, const Tensor& input_lengths,
                   const Tensor& target_lengths, std::int64_t blank) {
  const bool padded = targets.dims() == 2;
  if (x.dims() != 3 || (targets.dims() != 1 && !padded) ||
      (padded && targets.size(0) != x.size(1)) || input_lengths.shape() != Shape{x.size(1)} ||
      target_lengths.shape() != Shape{x.size(1)}) {
    throw ShapeError("ctc_loss of x " + describe(x) + ", targets " + describe(targets) +
                     ", input_lengths " + describe(input_lengths) + " and target_lengths " +
                     describe(target_lengths) +
                     ": they are [T, N, C], [N, S] or all labels in one row, [N], [N]");
  }
  const std::int64_t frames = x.size(0), samples = x.size(1), classes = x.size(2);
  if (blank < 0 || blank >= classes) {
    refuse("blank = " + std::to_string(blank) + " is not one of the " + std::to_string(classes) +
           " classes");
  }
  CtcTargets result;
  result.blank = blank;
  result.frames = Tensor::empty({samples}, DType::i64);
  result.frames.copy_from(input_lengths.to(Device{}).to(DType::i64));
  result.labels = Tensor::empty({targets.numel()}, DType::i64);
  result.first = Tensor::zeros({samples + 1}, DType::i64);
  const Tensor lengths = target_lengths.to(Device{}).to(DType::i64),
               all = targets.to(Device{}).to(DType::i64);
  const std::int64_t* const labels = whole_numbers(all);
  std::int64_t* const kept = whole_numbers(result.labels);
  const std::int64_t room = padded ? targets.size(1) : targets.size(0);
  std::int64_t count = 0;
  for (std::int64_t n = 0; n < samples; ++n) {
    const std::int64_t own_frames = whole_numbers(result.frames)[n],
                       length = whole_numbers(lengths)[n];
    if (own_frames < 0 || own_frames > frames) {
      refuse("input length " + std::to_string(own_frames) + " of sample " + std::to_string(n) +
             " must be between 0 and " + std::to_string(frames));
    }
    const std::int64_t begin = padded ? n * room : count;
    const std::int64_t left = padded ? room : room - begin;
    if (length < 0 || length > left) {
      refuse("target length " + std::to_string(length) + " of sample " + std::to_string(n) +
             " must be between 0 and the " + std::to_string(left) + " labels given");
    }
    for (std::int64_t s = begin; s < begin + length; ++s) {
      if (labels[s] < 0 || labels[s] >= classes || labels[s] == blank) {
        refuse("label " + std::to_string(labels[s]) + " of sample " + std::to_string(n) +
               " must be a class other than the blank");
      }
      kept[count++] = labels[s];
    }
    whole_numbers(result.first)[n + 1] = count;
  }
  return result;
}

}  // namespace

Variable ctc_loss(const Operand& log_probs, const Tensor& targets, const Tensor& input_lengths,
                  const Tensor& target_lengths, std::int64_t blank, Reduction reduction,
                  bool zero_infinity) {
  const Tensor& x = log_probs.data();
  CtcTargets labels = checked(x, targets, input_lengths, target_lengths, blank);
  const std::int64_t samples = x.size(1);
  std::int64_t longest = 0;
  const Tensor shares = Tensor::empty({samples}, DType::f64);
  for (std::int64_t n = 0; n < samples; ++n) {
    const std::int64_t* const first = whole_numbers(labels.first) + n;
    const std::int64_t length = first[1] - first[0];
    longest = std::max(longest, length);
    doubles(shares)[n] =
        reduction == Reduction::mean
            ? 1.0 / static_cast<double>(std::max<std::int64_t>(1, length) * samples)
            : 1.0;
  }
  labels.labels = labels.labels.to(x.device());
  labels.first = labels.first.to(x.device());
  labels.frames = labels.frames.to(x.device());
  const Tensor alpha = Tensor::empty({samples, x.size(0), 2 * longest + 1}, x.dtype(), x.device());
  const Tensor losses = Tensor::empty({samples}, x.dtype(), x.device());
  ctc_forward(x, labels, alpha, losses);

  // The host computes the sum, so it waits for a device.
  const Tensor values = losses.to(Device{}).to(DType::f64).clone();
  double total = 0.0;
  for (std::int64_t n = 0; n < samples; ++n) {
    double& value = doubles(values)[n];
    if (zero_infinity && std::isinf(value)) value = 0.0;
    total += value * doubles(shares)[n];
  }
  Tensor result = reduction == Reduction::none ? values.to(x.dtype()).to(x.device())
                                               : Tensor::full({}, total, x.dtype(), x.device());
  return record<CtcLossNode>(std::move(result), {&log_probs}, std::move(labels), alpha, losses,
                             shares.to(x.device()));
}

}  // namespace lockstep
