#pragma once
// Convolutions whose tensors a GPU's library stores in 16 bits (tensor/kernels/conv/conv2d.hpp).
#include <array>
#include <type_traits>
#include <utility>

#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/conv_form.hpp>
#include <lockstep/autograd/functional/multiplies_16_bits.hpp>
#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>

namespace lockstep::detail {

/// grad_bias (+)= the sum of grad_y[N,C, ...], or of an image in channel blocks, over samples and
/// positions.
inline void conv_bias_gradient(const Tensor& grad_y, const GradTarget& bias) {
  if (is_channel_blocked(grad_y)) {
    return conv2d_backward_bias(grad_y, bias.accumulate, bias.tensor);
  }
  const std::int64_t rows = grad_y.size(0) * grad_y.size(1);
  const std::int64_t positions = rows == 0 ? 0 : grad_y.numel() / rows;
  conv2d_backward_bias(grad_y.reshape({grad_y.size(0), grad_y.size(1), 1, positions}),
                       bias.accumulate, bias.tensor);
}

/// The operands of a convolution as multiplied; a bias is rounded to their type. x and weight may
/// be in channel blocks.
struct ConvOperands {
  Tensor x, weight, bias;

  ConvOperands(const Variable& given_x, const Variable& given_weight, const Variable& given_bias)
      : x(product_operand(given_x.data())), weight(product_operand(given_weight.data())) {
    if (given_bias.defined()) bias = given_bias.data().to(x.dtype());
  }
};

/// A convolution, or a transposed one, which exchanges x and the result in the form.
template <class Kind, bool transposed>
class Conv16BitsNode : public PooledNode<Conv16BitsNode<Kind, transposed>> {
 public:
  static constexpr bool reads_inputs = false, reads_outputs = false;
  static constexpr std::uint32_t saved_inputs = 0b011;
  static constexpr bool mixes_layouts = !transposed && std::is_same_v<Kind, Images>;
  static constexpr bool is_bilinear = true;

  Conv16BitsNode(const typename Kind::Options& options, Tensor x, Tensor weight)
      : form_{options}, x_(std::move(x)), weight_(std::move(weight)) {}

  /// The form's operands, from x, the weight and the result's gradient.
  template <class T>
  static std::array<T, 3> operands(const T& x, const T& weight, const T& g) {
    return transposed ? std::array<T, 3>{g, weight, x} : std::array<T, 3>{x, weight, g};
  }
  /// The operand that is input i, or for 2 the result's gradient.
  static constexpr int place(int i) { return transposed ? 2 - i : i; }

  void backward(const Tensor& grad_output) override {
    if (const auto bias = this->grad_target(2); bias.wanted) conv_bias_gradient(grad_output, bias);
    const auto read = operands(x_, weight_, grad_output);
    for (const int i : {1, 0}) {
      const auto to = this->grad_target(i);
      if (to.wanted) form_.derive(place(i), read, to.accumulate, to.tensor);
    }
  }
  /// In f32.
  void differentiate(Differentiation& d) override {
    const auto wide = [](const Variable& v) { return to(v, DType::f32); };
    const Tensor x = is_channel_blocked(this->input(0).data()) ? x_ : in_plain_layout(x_);
    const auto read =
        operands(wide(d.input_as(0, x)), wide(d.input_as(1, in_plain_layout(weight_))),
                 wide(d.grad_output()));
    const auto dtype = [this](int i) { return this->input(i).data().dtype(); };
    for (const int i : {0, 1}) {
      if (!d.wants(i)) continue;
      const Tensor& value = read[static_cast<std::size_t>(place(i))].data();
      d.give(i,
             to(trilinear_derivative(form_, place(i), read, Tensor::empty_like(value)), dtype(i)));
    }
    if (d.wants(2)) {
      d.give(2, to(channel_sums(from_channel_blocks(wide(d.grad_output()))), dtype(2)));
    }
  }
  [[nodiscard]] const char* name() const noexcept override {
    return transposed ? Kind::transposed_name : Kind::name;
  }

 private:
  ConvForm<Kind> form_;
  Tensor x_, weight_;
};

/// Computes and records it. y has the result's shape, and the operands' type.
template <class Kind, bool transposed>
Variable record_conv_16_bits(const Variable& x, const Variable& weight, const Variable& bias,
                             ConvOperands operands, const typename Kind::Options& options,
                             Tensor y) {
  const Tensor &in = operands.x, &kernel = operands.weight;
  if constexpr (transposed) {
    Kind::backward_input(in, kernel, options, false, y);
    if (operands.bias.defined()) add_channel_bias(operands.bias, y);
  } else {
    Kind::forward(in, kernel, operands.bias, options, y);
  }
  if (const Tensor& windows = transposed ? in : y; windows.numel() > 0) {
    count_flops(2 * windows.numel() * (kernel.numel() / kernel.size(0)));
  }
  return record<Conv16BitsNode<Kind, transposed>>(std::move(y), {&x, &weight, &bias}, options,
                                                  std::move(operands.x),
                                                  std::move(operands.weight));
}

}  // namespace lockstep::detail
