#include <lockstep/autograd/functional/conv.hpp>

#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/conv_16_bits.hpp>
#include <lockstep/autograd/functional/conv_form.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/layout_guard.hpp>
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep {
namespace {

class Conv2dNode : public PooledNode<Conv2dNode> {
 public:
  static constexpr bool mixes_layouts = true;
  static constexpr std::uint32_t saved_inputs = 0b011;
  static constexpr bool is_bilinear = true;

  explicit Conv2dNode(const Conv2dOptions& options) : options_(options) {}

  void backward(const Tensor& grad_output) override {
    if (const auto bias = grad_target(2); bias.wanted) {
      conv2d_backward_bias(grad_output, bias.accumulate, bias.tensor);
    }
    if (const auto weight = grad_target(1); weight.wanted) {
      conv2d_backward_weight(grad_output, input(0).data(), options_, weight.accumulate,
                             weight.tensor);
    }
    if (const auto x = grad_target(0); x.wanted) {
      conv2d_backward_input(grad_output, input(1).data(), options_, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    detail::differentiate_conv(detail::ConvForm<detail::Images>{options_},
                               {input(0), input(1), d.grad_output()}, {0, 1}, d);
  }
  [[nodiscard]] const char* name() const noexcept override { return "conv2d"; }

 private:
  Conv2dOptions options_;
};

/// apply(x), of 16 bits on a GPU as they are, else of f32.
template <class Apply>
Variable as_stored(const Variable& x, const Apply& apply) {
  if (math::device_math(x.data().device()) && is_native(x)) return apply(x);
  return apply(static_cast<const Variable&>(Operand(x)));
}

struct ToChannelBlocks {
  static constexpr bool mixes_layouts = true;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    to_channel_blocks(x, accumulate, y);
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    from_channel_blocks(y, accumulate, x);
  }
  [[nodiscard]] static const char* name() noexcept { return "to_channel_blocks"; }
};

/// Whether convolutions choose blocks where these fit.
bool prefers_blocks(Layout layout) {
  return layout == Layout::channel_blocks && image_layout() != ImageLayout::plain;
}

Variable wide_conv2d(const Operand& x, const Operand& weight, const Operand& bias,
                     const Conv2dOptions& options, Layout layout) {
  const PrecisionGuard precision(precision_of_product(x, weight));
  const Tensor bias_data = bias.defined() ? bias.data() : Tensor();
  const Shape shape = conv2d_shape(x.data(), weight.data(), bias_data, options);
  const DType dtype = x.data().dtype();
  const Device device = x.data().device();
  // The host's blocks are of f32: results that record() rounds to 16 bits are plain.
  const bool blocks = prefers_blocks(layout) && device.type == DeviceType::host &&
                      x.record()->rounds_results_to == DType::f32 &&
                      fits_channel_blocks(shape, dtype, device);
  Tensor y =
      blocks ? empty_channel_blocked(shape, dtype, device) : Tensor::empty(shape, dtype, device);
  conv2d_forward(x.data(), weight.data(), bias_data, options, y);
  if (y.numel() > 0) count_flops(2 * y.numel() * weight.data().numel() / weight.shape()[0]);
  return record<Conv2dNode>(std::move(y), {&x, &weight, &bias}, options);
}

}  // namespace

Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias,
                const Conv2dOptions& options, Layout layout) {
  if (!detail::multiplies_16_bits(x, weight, bias)) {
    return wide_conv2d(x, weight, bias, options, layout);
  }
  detail::ConvOperands operands(x, weight, bias);
  const Shape shape = conv2d_shape(operands.x, operands.weight, operands.bias, options);
  const DType dtype = operands.x.dtype();
  const Device device = operands.x.device();
  const auto fits = [&](const Shape& image) { return fits_channel_blocks(image, dtype, device); };
  const bool blocks = prefers_blocks(layout) && fits(plain_shape(operands.x)) &&
                      fits(operands.weight.shape()) && fits(shape);
  if (blocks) {
    operands.x = in_channel_blocks(operands.x);
    // A rounded weight is the node's own, rearranged once for both passes. One of 16 bits is the
    // variable's, of which backward reads the newest values.
    const bool is_rounded = operands.weight.dtype() != weight.data().dtype();
    if (is_rounded) operands.weight = in_channel_blocks(operands.weight);
  }
  Tensor y =
      blocks ? empty_channel_blocked(shape, dtype, device) : Tensor::empty(shape, dtype, device);
  return detail::record_conv_16_bits<detail::Images, false>(x, weight, bias, std::move(operands),
                                                            options, std::move(y));
}

Variable to_channel_blocks(const Variable& given) {
  if (is_channel_blocked(given.data())) return given;
  return as_stored(given, [](const Variable& x) {
    return linear_map(ToChannelBlocks{}, x,
                      empty_channel_blocked(x.shape(), x.data().dtype(), x.data().device()));
  });
}

Variable from_channel_blocks(const Variable& given) {
  if (!is_channel_blocked(given.data())) return given;
  return as_stored(given, [](const Variable& x) {
    return linear_map<ToChannelBlocks, true>(
        {}, x, Tensor::empty(plain_shape(x.data()), x.data().dtype(), x.data().device()));
  });
}

}  // namespace lockstep
