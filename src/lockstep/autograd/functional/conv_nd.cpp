#include <lockstep/autograd/functional/conv_nd.hpp>

#include <algorithm>
#include <string>

#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/autograd/functional/conv_16_bits.hpp>
#include <lockstep/autograd/functional/conv_form.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

class Conv3dNode : public PooledNode<Conv3dNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0b011;
  static constexpr bool is_bilinear = true;

  explicit Conv3dNode(const Conv3dOptions& options) : options_(options) {}

  void backward(const Tensor& grad_output) override {
    if (const auto bias = grad_target(2); bias.wanted) {
      detail::conv_bias_gradient(grad_output, bias);
    }
    if (const auto weight = grad_target(1); weight.wanted) {
      conv3d_backward_weight(grad_output, input(0).data(), options_, weight.accumulate,
                             weight.tensor);
    }
    if (const auto x = grad_target(0); x.wanted) {
      conv3d_backward_input(grad_output, input(1).data(), options_, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    detail::differentiate_conv(detail::ConvForm<detail::Volumes>{options_},
                               {input(0), input(1), d.grad_output()}, {0, 1}, d);
  }
  [[nodiscard]] const char* name() const noexcept override { return "conv3d"; }

 private:
  Conv3dOptions options_;
};

/// The input's gradient in a convolution is the output of the transposed one, and vice versa.
template <class Kind>
class ConvTransposeNode : public PooledNode<ConvTransposeNode<Kind>> {
 public:
  static constexpr std::uint32_t saved_inputs = 0b011;
  static constexpr bool is_bilinear = true;

  explicit ConvTransposeNode(const typename Kind::Options& options) : options_(options) {}

  void backward(const Tensor& grad_output) override {
    if (const auto bias = this->grad_target(2); bias.wanted) {
      detail::conv_bias_gradient(grad_output, bias);
    }
    if (const auto weight = this->grad_target(1); weight.wanted) {
      Kind::backward_weight(this->input(0).data(), grad_output, options_, weight.accumulate,
                            weight.tensor);
    }
    const auto x = this->grad_target(0);
    if (!x.wanted) return;
    accumulate_into(x.tensor, x.accumulate, [&](const Tensor& to) {
      Kind::forward(grad_output, this->input(1).data(), Tensor(), options_, to);
    });
  }
  void differentiate(Differentiation& d) override {
    detail::differentiate_conv(detail::ConvForm<Kind>{options_},
                               {d.grad_output(), this->input(1), this->input(0)}, {2, 1}, d);
  }
  [[nodiscard]] const char* name() const noexcept override { return Kind::transposed_name; }

 private:
  typename Kind::Options options_;
};

/// The shape of the result. Throws ShapeError, with the shapes, if these do not match.
template <class Kind, std::size_t dims>
Shape transposed_shape(const Tensor& in, const Tensor& kernel, const Tensor& bias,
                       const ConvTransposeOptions<dims>& o) {
  const auto complain = [&](const std::string& why) {
    throw ShapeError(std::string(Kind::transposed_name) + " of x " + describe(in) +
                     " with weight " + describe(kernel) +
                     (bias.defined() ? " and bias " + describe(bias) : "") + ", groups " +
                     std::to_string(o.groups) + ": " + why);
  };
  constexpr int rank = static_cast<int>(dims) + 2;
  if (in.dims() != rank || kernel.dims() != rank) {
    complain("x must be [N, C, ...] and weight [C, O / groups, ...] of " + std::to_string(dims) +
             " spatial dimensions");
  }
  if (o.groups < 1 || kernel.size(0) != in.size(1) || kernel.size(0) % o.groups != 0) {
    complain("the channels of x and weight do not match");
  }
  const std::int64_t outputs = kernel.size(1) * o.groups;
  if (bias.defined() && bias.shape() != Shape{outputs}) complain("the bias must be [O]");
  if (kernel.dtype() != in.dtype() || (bias.defined() && bias.dtype() != in.dtype())) {
    complain("the dtypes differ");
  }
  std::array<std::int64_t, rank> extents{in.size(0), outputs};
  for (std::size_t d = 0; d < dims; ++d) {
    const int dimension = static_cast<int>(d) + 2;
    if (o.stride[d] < 1 || o.dilation[d] < 1 || o.padding[d] < 0 || o.output_padding[d] < 0 ||
        o.output_padding[d] >= std::max(o.stride[d], o.dilation[d])) {
      complain(
          "stride and dilation are at least 1, padding at least 0, output_padding below "
          "stride or dilation");
    }
    const std::int64_t extent = (in.size(dimension) - 1) * o.stride[d] - 2 * o.padding[d] +
                                o.dilation[d] * (kernel.size(dimension) - 1) + o.output_padding[d] +
                                1;
    if (kernel.size(dimension) < 1 || in.size(dimension) < 1 || extent < 1) {
      complain("the output would be empty");
    }
    extents[d + 2] = extent;
  }
  return Shape(extents);
}

template <class Kind, std::size_t dims>
Variable wide_conv_transpose(const Operand& x, const Operand& weight, const Operand& bias,
                             const ConvTransposeOptions<dims>& o) {
  const Tensor &in = x.data(), &kernel = weight.data();
  const Shape shape =
      transposed_shape<Kind>(in, kernel, bias.defined() ? bias.data() : Tensor(), o);
  const typename Kind::Options options{o.stride, o.padding, o.dilation, o.groups};
  Tensor y = Tensor::empty(shape, in.dtype(), in.device());
  // This operation is the transpose of a convolution from y to x.
  static_cast<void>(Kind::shape(y, kernel, options));
  Kind::backward_input(in, kernel, options, false, y);
  if (bias.defined()) add_channel_bias(bias.data(), y);
  if (in.numel() > 0) count_flops(2 * in.numel() * (kernel.numel() / kernel.size(0)));
  return record<ConvTransposeNode<Kind>>(std::move(y), {&x, &weight, &bias}, options);
}

template <class Kind, std::size_t dims>
Variable conv_transpose(const Variable& x, const Variable& weight, const Variable& bias,
                        const ConvTransposeOptions<dims>& o) {
  if (!detail::multiplies_16_bits(x, weight, bias)) {
    return wide_conv_transpose<Kind>(x, weight, bias, o);
  }
  detail::ConvOperands operands(x, weight, bias);
  const Shape shape = transposed_shape<Kind>(operands.x, operands.weight, operands.bias, o);
  Tensor y = Tensor::empty(shape, operands.x.dtype(), operands.x.device());
  return detail::record_conv_16_bits<Kind, true>(x, weight, bias, std::move(operands),
                                                 {o.stride, o.padding, o.dilation, o.groups},
                                                 std::move(y));
}

Variable wide_conv3d(const Operand& x, const Operand& weight, const Operand& bias,
                     const Conv3dOptions& options) {
  const PrecisionGuard precision(precision_of_product(x, weight));
  const Tensor bias_data = bias.defined() ? bias.data() : Tensor();
  const Shape shape = conv3d_shape(x.data(), weight.data(), bias_data, options);
  Tensor y = Tensor::empty(shape, x.data().dtype(), x.data().device());
  conv3d_forward(x.data(), weight.data(), bias_data, options, y);
  if (y.numel() > 0) count_flops(2 * y.numel() * weight.data().numel() / weight.shape()[0]);
  return record<Conv3dNode>(std::move(y), {&x, &weight, &bias}, options);
}

/// [N,C,L] as [N,C,1,L]. Other shapes are kept for the error message.
Variable as_image(const Variable& x) {
  const Shape& s = x.shape();
  return s.dims() == 3 ? reshape(x, {s[0], s[1], 1, s[2]}) : x;
}

void expect_sequences(const char* operation, const Variable& x, const Variable& weight) {
  if (x.shape().dims() == 3 && weight.shape().dims() == 3) return;
  throw ShapeError(std::string(operation) + " of x " + describe(x.data()) + " with weight " +
                   describe(weight.data()) + ": both must have three dimensions");
}

Variable as_sequence(const Variable& y) {
  const Shape& s = y.shape();
  return reshape(y, {s[0], s[1], s[3]});
}

}  // namespace

Variable conv1d(const Variable& x, const Variable& weight, const Variable& bias,
                const Conv1dOptions& o) {
  expect_sequences("conv1d", x, weight);
  return as_sequence(conv2d(as_image(x), as_image(weight), bias,
                            {{1, o.stride[0]}, {0, o.padding[0]}, {1, o.dilation[0]}, o.groups}));
}

Variable conv3d(const Variable& x, const Variable& weight, const Variable& bias,
                const Conv3dOptions& options) {
  if (!detail::multiplies_16_bits(x, weight, bias)) return wide_conv3d(x, weight, bias, options);
  detail::ConvOperands operands(x, weight, bias);
  const Shape shape = conv3d_shape(operands.x, operands.weight, operands.bias, options);
  Tensor y = Tensor::empty(shape, operands.x.dtype(), operands.x.device());
  return detail::record_conv_16_bits<detail::Volumes, false>(x, weight, bias, std::move(operands),
                                                             options, std::move(y));
}

Variable conv_transpose1d(const Variable& x, const Variable& weight, const Variable& bias,
                          const ConvTransposeOptions<1>& o) {
  expect_sequences("conv_transpose1d", x, weight);
  return as_sequence(conv_transpose2d(as_image(x), as_image(weight), bias,
                                      {{1, o.stride[0]},
                                       {0, o.padding[0]},
                                       {0, o.output_padding[0]},
                                       {1, o.dilation[0]},
                                       o.groups}));
}

Variable conv_transpose2d(const Variable& x, const Variable& weight, const Variable& bias,
                          const ConvTransposeOptions<2>& options) {
  return conv_transpose<detail::Images>(x, weight, bias, options);
}

Variable conv_transpose3d(const Variable& x, const Variable& weight, const Variable& bias,
                          const ConvTransposeOptions<3>& options) {
  return conv_transpose<detail::Volumes>(x, weight, bias, options);
}

}  // namespace lockstep
