#include <utility>

#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/autograd/functional/scale_map.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/tensor/kernels/conv/conv2d_max_pool2d.hpp>
#include <lockstep/tensor/layout_guard.hpp>

namespace lockstep {
namespace {

Variable one_by_one(const Variable& x, const Variable& weight, const Variable& bias,
                    const Conv2dOptions& conv, const PoolOptions<2>& pool,
                    const Tensor& channel_scale) {
  Variable y = conv2d(x, weight, bias, conv);
  if (channel_scale.defined()) {
    y = linear_map(detail::ScaleMap{"channel_scale", channel_scale}, y,
                   Tensor::empty(y.shape(), y.data().dtype(), y.data().device()));
  }
  return relu(max_pool2d(y, pool));
}

PoolOptions<2> options_of(const SquareWindow& window) {
  return {.kernel = window.kernel, .stride = window.stride, .padding = window.padding};
}

class Conv2dMaxPool2dReluNode : public PooledNode<Conv2dMaxPool2dReluNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0b011;

  Conv2dMaxPool2dReluNode(Conv2dMaxPool2dInputs inputs, Tensor y, Tensor code)
      : inputs_(std::move(inputs)), y_(std::move(y)), code_(std::move(code)) {}

  void backward(const Tensor& grad_output) override {
    auto x = grad_target(0), weight = grad_target(1), bias = grad_target(2);
    Conv2dMaxPool2dGradients gradients;
    if (x.wanted) gradients.x = std::move(x.tensor);
    if (weight.wanted) gradients.weight = std::move(weight.tensor);
    if (bias.wanted) gradients.bias = std::move(bias.tensor);
    gradients.accumulate_x = x.accumulate;
    gradients.accumulate_weight = weight.accumulate;
    gradients.accumulate_bias = bias.accumulate;
    conv2d_max_pool2d_relu_backward(inputs_, y_, code_, grad_output, gradients);
  }
  void differentiate(Differentiation& d) override {
    d.give_as([this](std::span<const Variable> v) {
      return one_by_one(v[0], v[1], v[2], inputs_.conv, options_of(inputs_.pool),
                        inputs_.channel_scale);
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "conv2d_max_pool2d_relu"; }

 private:
  Conv2dMaxPool2dInputs inputs_;
  Tensor y_, code_;
};

Variable fused_on_host(const Operand& x, const Operand& weight, const Operand& bias,
                       const Conv2dOptions& conv, const PoolOptions<2>& pool,
                       const Tensor& channel_scale) {
  const auto window = detail::square_window(pool);
  if (image_layout() == ImageLayout::plain || !window ||
      !conv2d_max_pool2d_supported(x.shape(), weight.shape(), conv, *window, x.data().dtype())) {
    return one_by_one(x, weight, bias, conv, pool, channel_scale);
  }
  Conv2dMaxPool2dInputs inputs{
      x.data(),      weight.data(), bias.defined() ? bias.data() : Tensor(),
      channel_scale, conv,          *window};
  const Shape shape = conv2d_max_pool2d_shape(x.shape(), weight.shape(), conv, *window);
  Tensor y = Tensor::empty(shape, x.data().dtype(), x.data().device());
  Tensor code = grad_enabled() ? Tensor::empty(shape, DType::u8, x.data().device()) : Tensor();
  conv2d_max_pool2d_relu_forward(inputs, y, code);
  const Shape unpooled = conv2d_shape(inputs.x, inputs.weight, inputs.bias, conv);
  count_nominal_flops(2 * unpooled.numel() * weight.data().numel() / weight.shape()[0]);
  return record<Conv2dMaxPool2dReluNode>(y, {&x, &weight, &bias}, std::move(inputs), y,
                                         std::move(code));
}

}  // namespace

Variable conv2d_max_pool2d_relu(const Variable& x, const Variable& weight, const Variable& bias,
                                const Conv2dOptions& conv, const PoolOptions<2>& pool,
                                const Tensor& channel_scale) {
  return x.data().device().type == DeviceType::host
             ? fused_on_host(x, weight, bias, conv, pool, channel_scale)
             : one_by_one(x, weight, bias, conv, pool, channel_scale);
}

}  // namespace lockstep
