#include <lockstep/autograd/functional/conv.hpp>

#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/tensor/kernels/avg_pool2d.hpp>
#include <lockstep/tensor/kernels/channel_blocks.hpp>

namespace lockstep {
namespace {

class Conv2dNode : public PooledNode<Conv2dNode> {
 public:
  static constexpr bool mixes_layouts = true;

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
  [[nodiscard]] const char* name() const noexcept override { return "conv2d"; }

 private:
  Conv2dOptions options_;
};

class ToChannelBlocksNode : public PooledNode<ToChannelBlocksNode> {
 public:
  static constexpr bool mixes_layouts = true;

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      from_channel_blocks(grad_output, x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "to_channel_blocks"; }
};

class FromChannelBlocksNode : public PooledNode<FromChannelBlocksNode> {
 public:
  static constexpr bool mixes_layouts = true;

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      to_channel_blocks(grad_output, x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "from_channel_blocks"; }
};

class MaxPool2dNode : public PooledNode<MaxPool2dNode> {
 public:
  MaxPool2dNode(const Pool2dOptions& options, Tensor indices)
      : options_(options), indices_(std::move(indices)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      max_pool2d_backward(grad_output, indices_, options_, x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "max_pool2d"; }

 private:
  Pool2dOptions options_;
  Tensor indices_;
};

class AvgPool2dNode : public PooledNode<AvgPool2dNode> {
 public:
  AvgPool2dNode(const Pool2dOptions& options, bool count_include_pad)
      : options_(options), count_include_pad_(count_include_pad) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      avg_pool2d_backward(grad_output, options_, count_include_pad_, x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "avg_pool2d"; }

 private:
  Pool2dOptions options_;
  bool count_include_pad_;
};

class AdaptiveAvgPool2dNode : public PooledNode<AdaptiveAvgPool2dNode> {
 public:
  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      adaptive_avg_pool2d_backward(grad_output, x.accumulate, x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "adaptive_avg_pool2d"; }
};

}  // namespace

Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias,
                const Conv2dOptions& options, Layout layout) {
  const Tensor bias_data = bias.defined() ? bias.data() : Tensor();
  const Shape shape = conv2d_shape(x.data(), weight.data(), bias_data, options);
  const DType dtype = x.data().dtype();
  const Device device = x.data().device();
  const bool blocks = layout == Layout::channel_blocks && fits_channel_blocks(shape, dtype, device);
  Tensor y =
      blocks ? empty_channel_blocked(shape, dtype, device) : Tensor::empty(shape, dtype, device);
  conv2d_forward(x.data(), weight.data(), bias_data, options, y);
  if (y.numel() > 0) count_flops(2 * y.numel() * weight.data().numel() / weight.shape()[0]);
  return record<Conv2dNode>(std::move(y), {&x, &weight, &bias}, options);
}

Variable to_channel_blocks(const Variable& x) {
  if (is_channel_blocked(x.data())) return x;
  Tensor y = empty_channel_blocked(x.shape(), x.data().dtype(), x.data().device());
  to_channel_blocks(x.data(), false, y);
  return record<ToChannelBlocksNode>(std::move(y), {&x});
}

Variable from_channel_blocks(const Variable& x) {
  if (!is_channel_blocked(x.data())) return x;
  Tensor y = Tensor::empty(plain_shape(x.data()), x.data().dtype(), x.data().device());
  from_channel_blocks(x.data(), false, y);
  return record<FromChannelBlocksNode>(std::move(y), {&x});
}

Variable max_pool2d(const Variable& x, const Pool2dOptions& options) {
  const Shape shape = max_pool2d_shape(x.shape(), options);
  Tensor y = Tensor::empty(shape, x.data().dtype(), x.data().device());
  Tensor indices = Tensor::empty(shape, DType::i32, x.data().device());
  max_pool2d_forward(x.data(), options, y, indices);
  return record<MaxPool2dNode>(std::move(y), {&x}, options, std::move(indices));
}

Variable avg_pool2d(const Variable& x, const Pool2dOptions& options, bool count_include_pad) {
  Tensor y =
      Tensor::empty(avg_pool2d_shape(x.shape(), options), x.data().dtype(), x.data().device());
  avg_pool2d_forward(x.data(), options, count_include_pad, y);
  return record<AvgPool2dNode>(std::move(y), {&x}, options, count_include_pad);
}

Variable adaptive_avg_pool2d(const Variable& x, std::int64_t output_size) {
  Tensor y = Tensor::empty(adaptive_avg_pool2d_shape(x.shape(), output_size), x.data().dtype(),
                           x.data().device());
  adaptive_avg_pool2d_forward(x.data(), y);
  return record<AdaptiveAvgPool2dNode>(std::move(y), {&x});
}

}  // namespace lockstep
