#include <lockstep/autograd/functional/batch_norm.hpp>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/autograd/functional/natively_beside.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/rounded_once.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm.hpp>
#include <lockstep/tensor/kernels/norm/sync_batch_norm.hpp>
#include <lockstep/tensor/math/device_math.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep {
namespace {

class BatchNormNode : public PooledNode<BatchNormNode> {
 public:
  static constexpr bool mixes_layouts = true;
  static constexpr std::uint32_t saved_inputs = 0b0011;

  BatchNormNode(BatchNormInputs inputs, bool training, double eps, BatchNormSaved saved, Tensor y)
      : inputs_(std::move(inputs)),
        training_(training),
        eps_(eps),
        saved_(std::move(saved)),
        y_(std::move(y)) {}

  void backward(const Tensor& grad_output) override {
    auto residual = grad_target(3);
    auto x = grad_target(0), weight = grad_target(1), bias = grad_target(2);
    BatchNormGradients gradients;
    if (x.wanted) gradients.x = std::move(x.tensor);
    if (weight.wanted) gradients.weight = std::move(weight.tensor);
    if (bias.wanted) gradients.bias = std::move(bias.tensor);
    if (residual.wanted) gradients.residual = std::move(residual.tensor);
    gradients.accumulate_x = x.accumulate;
    gradients.accumulate_weight = weight.accumulate;
    gradients.accumulate_bias = bias.accumulate;
    gradients.accumulate_residual = residual.accumulate;
    batch_norm_backward(inputs_, training_, saved_, y_, grad_output, gradients);
  }
  void differentiate(Differentiation& d) override {
    d.give_as([this](std::span<const Variable> inputs) {
      return detail::rounded_once(inputs[0],
                                  [&](const Variable& given_x) { return parts(given_x, inputs); });
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "batch_norm"; }

 private:
  [[nodiscard]] Variable parts(const Variable& given_x, std::span<const Variable> inputs) const {
    const Variable x = from_channel_blocks(given_x), &residual = inputs[3];
    const std::int64_t channels = x.shape()[1], samples = x.shape()[0];
    const auto along = [&](const Variable& v) { return reshape(v, {1, channels, 1}); };
    const Variable planes =
        reshape(x, {samples, channels, x.shape().with_leading(1).numel() / channels});
    const Variable middle =
        training_ ? mean(planes, {0, 2}, true) : along(Variable(inputs_.running_mean));
    const Variable centred = planes - middle;
    const Variable variance =
        training_ ? mean(pow(centred, 2.0), {0, 2}, true) : along(Variable(inputs_.running_var));
    Variable y = centred * rsqrt(variance + eps_);
    if (inputs[1].defined()) y = y * along(inputs[1]);
    if (inputs[2].defined()) y = y + along(inputs[2]);
    y = reshape(y, x.shape());
    if (residual.defined()) y = y + from_channel_blocks(residual);
    if (inputs_.relu) y = relu(y);
    return is_channel_blocked(given_x.data()) ? to_channel_blocks(y) : y;
  }

  BatchNormInputs inputs_;
  bool training_;
  double eps_;
  BatchNormSaved saved_;
  Tensor y_;
};

using Exchange = std::shared_ptr<const StatisticsExchange>;

/// Batch normalisation of a batch spread over several ranks, each with its own part x.
class SyncBatchNormNode : public PooledNode<SyncBatchNormNode> {
 public:
  static constexpr bool mixes_layouts = true;
  static constexpr std::uint32_t saved_inputs = 0b0011;

  SyncBatchNormNode(BatchNormInputs inputs, BatchNormSaved saved, Tensor y, Tensor count,
                    Exchange exchange)
      : inputs_(std::move(inputs)),
        saved_(std::move(saved)),
        y_(std::move(y)),
        count_(std::move(count)),
        exchange_(std::move(exchange)) {}

  void backward(const Tensor& grad_output) override {
    const std::int64_t channels = inputs_.weight.numel();
    const Tensor sums =
        Tensor::empty({2, channels}, inputs_.weight.dtype(), inputs_.weight.device());
    auto residual = grad_target(3);
    BatchNormGradients own;
    own.bias = sums.slice(0, 1).reshape({channels});
    own.weight = sums.slice(1, 2).reshape({channels});
    if (residual.wanted) own.residual = std::move(residual.tensor);
    own.accumulate_residual = residual.accumulate;
    batch_norm_backward(inputs_, false, saved_, y_, grad_output, own);
    give(1, own.weight);
    give(2, own.bias);
    const auto x = grad_target(0);
    if (!x.wanted) return;
    exchange_->sum(sums);
    sync_batch_norm_backward(inputs_, saved_, y_, grad_output, sums, count_, x.tensor,
                             x.accumulate);
  }
  [[nodiscard]] const char* name() const noexcept override { return "batch_norm"; }

 private:
  /// Always copies, unlike pass_grad: the gradient given is later replaced by its sum over the
  /// ranks.
  void give(int input, const Tensor& gradient) {
    const auto target = grad_target(input);
    if (!target.wanted) return;
    if (target.accumulate) {
      add_scaled(gradient, 1.0, target.tensor);
    } else {
      target.tensor.copy_from(gradient);
    }
  }

  BatchNormInputs inputs_;
  BatchNormSaved saved_;
  Tensor y_;
  Tensor count_;
  Exchange exchange_;
};

/// Replaces the running statistics in `inputs` by those of the whole batch over all ranks, after
/// updating the running ones. Returns the number of values in a channel, f64 [1]. Collective.
Tensor take_statistics_of_all(const StatisticsExchange& exchange, double momentum,
                              BatchNormInputs& inputs) {
  const std::int64_t channels = inputs.weight.numel();
  const Device device = inputs.x.device();
  const Tensor part = Tensor::empty({1 + 2 * channels}, DType::f64, device);
  batch_norm_statistics(inputs.x, part);
  const Tensor mean = Tensor::empty_like(inputs.running_mean);
  const Tensor variance = Tensor::empty_like(inputs.running_var);
  Tensor count = Tensor::empty({1}, DType::f64, device);
  join_batch_norm_statistics(exchange.gather(part), momentum, inputs.running_mean,
                             inputs.running_var, mean, variance, count);
  inputs.running_mean = mean;
  inputs.running_var = variance;
  // A rank with two values need not look. If no rank has two, all ranks read the count, which waits
  // for a device.
  if (inputs.x.numel() <= channels && count.item() == 1) {
    throw ShapeError("batch_norm of x " + describe(inputs.x) +
                     ": in training each channel needs more than one value, and all ranks together "
                     "have one; use larger batches, or leave out the last, smaller batch");
  }
  return count;
}

/// Whether x has Autocast's 16 bits where its convolutions give them: then they stay, beside
/// parameters of f32, as with PyTorch's autocast.
bool is_result_of_autocast_on_a_gpu(const Variable& x) {
  return autocast_enabled() && x.data().dtype() == autocast_dtype() && is_native(x) &&
         math::device_math(x.data().device()) != nullptr;
}

/// The shortcut in x's layout.
Variable in_layout_of(const Variable& x, const Variable& shortcut) {
  if (is_channel_blocked(x.data()) == is_channel_blocked(shortcut.data())) return shortcut;
  if (!is_channel_blocked(x.data())) return from_channel_blocks(shortcut);
  // The host's blocks are of f32.
  const bool widens =
      x.data().device().type == DeviceType::host && is_half(shortcut.data().dtype());
  return to_channel_blocks(widens ? to(shortcut, DType::f32) : shortcut);
}

/// `given` or, if undefined, `value` for each channel of x.
Tensor or_constant(const Tensor& given, const Tensor& x, double value) {
  if (given.defined()) return given;
  return Tensor::full({plain_shape(x)[1]}, value, sum_dtype(x.dtype()), x.device());
}

}  // namespace

Variable batch_norm(const Variable& input, const Operand& weight, const Operand& bias,
                    const BatchNormStatistics& statistics, bool training, double momentum,
                    double eps, const Variable& given_shortcut, bool relu) {
  const auto apply = [&](const Variable& x, const Variable& residual) {
    if (x.shape().dims() < 2 || (!training && !statistics.running_mean.defined())) {
      throw ShapeError("batch_norm of x " + describe(x.data()) +
                       ": x is [N, C, ...], and evaluation needs running statistics");
    }
    const auto data = [](const Variable& v) { return v.defined() ? v.data() : Tensor(); };
    BatchNormInputs inputs{.x = x.data(),
                           .weight = or_constant(data(weight), x.data(), 1.0),
                           .bias = or_constant(data(bias), x.data(), 0.0),
                           // The kernels always write running statistics, so scratch tensors
                           // replace missing ones.
                           .running_mean = or_constant(statistics.running_mean, x.data(), 0.0),
                           .running_var = or_constant(statistics.running_var, x.data(), 0.0),
                           .residual = residual.defined() ? residual.data() : Tensor(),
                           .relu = relu};
    const bool shared = training && statistics.exchange;
    check_batch_norm(inputs, training && !shared);
    Tensor y = Tensor::empty_like(x.data());
    BatchNormSaved saved{Tensor::empty_like(inputs.weight), Tensor::empty_like(inputs.weight)};
    Tensor count =
        shared ? take_statistics_of_all(*statistics.exchange, momentum, inputs) : Tensor();
    batch_norm_forward(inputs, training && !shared, momentum, eps, y, saved);
    Tensor kept = relu ? y : Tensor();
    if (shared) {
      return record<SyncBatchNormNode>(std::move(y), {&x, &weight, &bias, &residual},
                                       std::move(inputs), std::move(saved), std::move(kept),
                                       std::move(count), statistics.exchange);
    }
    return record<BatchNormNode>(std::move(y), {&x, &weight, &bias, &residual}, std::move(inputs),
                                 training, eps, std::move(saved), std::move(kept));
  };
  // The host's kernels for channel blocks take f32.
  const auto takes_layout = [](const Variable& x) {
    return !is_channel_blocked(x.data()) || math::device_math(x.data().device()) != nullptr;
  };
  const bool stores_16_bits =
      takes_layout(input) &&
      (detail::is_native_beside(input, weight, bias) || is_result_of_autocast_on_a_gpu(input));
  if (!given_shortcut.defined()) {
    return stores_16_bits ? apply(input, {}) : apply(Operand(input), {});
  }
  const Variable shortcut = in_layout_of(input, given_shortcut);
  const bool is_alike = shortcut.data().dtype() == input.data().dtype() && is_native(shortcut) &&
                        takes_layout(shortcut);
  return stores_16_bits && is_alike ? apply(input, shortcut)
                                    : apply(Operand(input), Operand(shortcut));
}

}  // namespace lockstep
