#include <lockstep/autograd/functional/linear.hpp>

#include <array>

#include <lockstep/autograd/accumulate.hpp>
#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/expand.hpp>
#include <lockstep/autograd/functional/multiplies_16_bits.hpp>
#include <lockstep/autograd/linear_gradients.hpp>
#include <lockstep/autograd/operand.hpp>
#include <lockstep/autograd/trilinear.hpp>
#include <lockstep/tensor/kernels/elementwise/activation.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>

namespace lockstep {
namespace {

/// <x weight^T, g>, the operands in this order.
struct LinearForm {
  static constexpr bool mixes_layouts = false;

  void derive(int by, const std::array<Tensor, 3>& operands, bool accumulate,
              const Tensor& to) const {
    const auto& [x, weight, g] = operands;
    if (by == 0) return linear_backward_input(g, weight, accumulate, to);
    if (by == 1) return linear_backward_weight(g, x, accumulate, to);
    accumulate_into(to, accumulate,
                    [&](const Tensor& y) { linear_forward(operands[0], operands[1], {}, y); });
  }
  [[nodiscard]] static const char* name() noexcept { return "linear"; }
};

class LinearNode : public PooledNode<LinearNode> {
 public:
  static constexpr bool reads_inputs = false, reads_outputs = false;
  static constexpr std::uint32_t saved_inputs = 0b011;
  static constexpr bool is_bilinear = true;

  /// The operands as multiplied, after any rounding.
  LinearNode(Tensor x, Tensor weight) : x_(std::move(x)), weight_(std::move(weight)) {}

  void backward(const Tensor& grad_output) override {
    const Tensor g = grad_output.to(x_.dtype());
    const GradTarget bias = grad_target(2), weight = grad_target(1);
    give_linear_gradients(grad_output, g, x_, weight, bias);
    if (const auto x = grad_target(0); x.wanted) {
      linear_backward_input(g, weight_, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    // Under Autocast x may have 16 bits beside a weight of f32.
    const DType dtype =
        input(0).data().dtype() == input(1).data().dtype() ? input(0).data().dtype() : DType::f32;
    const std::array<Variable, 3> operands{to(d.input_as(0, x_), dtype),
                                           to(d.input_as(1, weight_), dtype),
                                           to(d.grad_output(), dtype)};
    for (const int i : {0, 1}) {
      if (!d.wants(i)) continue;
      const Tensor& x = input(i).data();
      d.give(i, to(trilinear_derivative(LinearForm{}, i, operands,
                                        Tensor::empty(x.shape(), dtype, x.device())),
                   x.dtype()));
    }
    if (d.wants(2)) d.give(2, sum_to_size(d.grad_output(), input(2).shape()));
  }
  [[nodiscard]] const char* name() const noexcept override { return "linear"; }

 private:
  Tensor x_, weight_;
};

/// linear(gelu(pre), weight, bias) of 16 bits, where gelu(pre) is there already.
class GeluLinearNode : public PooledNode<GeluLinearNode> {
 public:
  static constexpr bool reads_outputs = false;
  static constexpr std::uint32_t saved_inputs = 0b011;

  /// The operands as multiplied.
  GeluLinearNode(Tensor hidden, Tensor weight)
      : hidden_(std::move(hidden)), weight_(std::move(weight)) {}

  void backward(const Tensor& grad_output) override {
    const Tensor g = grad_output.to(hidden_.dtype());
    const GradTarget bias = grad_target(2), weight = grad_target(1);
    give_linear_gradients(grad_output, g, hidden_, weight, bias);
    const auto pre = grad_target(0);
    if (!pre.wanted) return;
    const Tensor& before = input(0).data();
    if (!pre.accumulate && gelu_linear_backward_input(g, weight_, before, pre.tensor)) return;
    const Tensor of_hidden = Tensor::empty_like(hidden_);
    linear_backward_input(g, weight_, false, of_hidden);
    gelu_backward(of_hidden, before, Gelu::tanh, pre.accumulate, pre.tensor);
  }
  void differentiate(Differentiation& d) override {
    d.give_as([](std::span<const Variable> inputs) {
      const auto wide = [&](std::size_t i) { return to(inputs[i], DType::f32); };
      return to(linear(gelu(wide(0), Gelu::tanh), wide(1), wide(2)), inputs[0].data().dtype());
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "linear"; }

 private:
  Tensor hidden_, weight_;
};

/// `evaluate(x, weight, bias, y)` computes y. x and weight have one dtype; a bias has it too, or is
/// f32 beside 16 bits, and y is of the bias's. Under Autocast each is f32 or of its type, and y has
/// 16 bits.
template <class F>
Variable record_linear(const Variable& x, const Variable& weight, const Variable& bias,
                       const F& evaluate) {
  Tensor x_operand = product_operand(x.data()), matrix = product_operand(weight.data());
  const Tensor given = bias.defined() ? bias.data() : Tensor();
  const Shape shape = linear_shape(x_operand, matrix, given);
  const DType dtype = autocast_enabled() ? x_operand.dtype()
                      : bias.defined()   ? given.dtype()
                                         : x.data().dtype();
  Tensor y = Tensor::empty(shape, dtype, x.data().device());
  evaluate(x_operand, matrix, bias.defined() ? given.to(dtype) : given, y);
  return record<LinearNode>(std::move(y), {&x, &weight, &bias}, std::move(x_operand),
                            std::move(matrix));
}

/// Products take 16 bits, and write gradients in the type of a parameter's gradient memory, 16 bits
/// or f32. So only operands of different dtypes are copied.
template <class F>
Variable linear_by(const Variable& x, const Variable& weight, const Variable& bias,
                   const F& evaluate) {
  if (are_autocast_operands(x, weight, bias)) {
    return record_linear(x, weight, bias, evaluate);
  }
  const DType dtype = x.data().dtype();
  if (weight.data().dtype() != dtype) {
    return record_linear(Operand(x), Operand(weight), Operand(bias), evaluate);
  }
  if (bias.defined() && bias.data().dtype() != dtype) {
    return record_linear(x, weight, Operand(bias), evaluate);
  }
  return record_linear(x, weight, bias, evaluate);
}

void count_product(const Tensor& y, const Tensor& weight) {
  count_flops(2 * y.numel() * weight.shape()[1]);
}

}  // namespace

Variable linear(const Variable& x, const Variable& weight, const Variable& bias) {
  return linear_by(x, weight, bias,
                   [](const Tensor& rows, const Tensor& matrix, const Tensor& b, Tensor& y) {
                     linear_forward(rows, matrix, b, y);
                     count_product(y, matrix);
                   });
}

Variable linear_without_values(const Variable& x, const Variable& weight, const Variable& bias) {
  return linear_by(x, weight, bias,
                   [](const Tensor&, const Tensor&, const Tensor&, Tensor& y) { y.zero(); });
}

Variable linear_gelu_linear(const Variable& x, const Variable& weight1, const Variable& bias1,
                            const Variable& weight2, const Variable& bias2, bool with_values) {
  if (!detail::multiplies_16_bits(x, weight1, bias1, weight2, bias2)) {
    const Variable hidden = gelu(linear(x, weight1, bias1), Gelu::tanh);
    return with_values ? linear(hidden, weight2, bias2)
                       : linear_without_values(hidden, weight2, bias2);
  }
  Tensor hidden;
  const Variable pre =
      linear_by(x, weight1, bias1,
                [&](const Tensor& rows, const Tensor& matrix, const Tensor& bias, const Tensor& y) {
                  hidden = Tensor::empty_like(y);
                  if (!linear_gelu_forward(rows, matrix, bias, y, hidden)) {
                    linear_forward(rows, matrix, bias, y);
                    gelu_forward(y, Gelu::tanh, hidden);
                  }
                  count_product(y, matrix);
                });
  Tensor matrix = product_operand(weight2.data());
  const Tensor bias = bias2.data().to(hidden.dtype());
  Tensor y = Tensor::empty(linear_shape(hidden, matrix, bias), hidden.dtype(), hidden.device());
  if (with_values) {
    linear_forward(hidden, matrix, bias, y);
    count_product(y, matrix);
  } else {
    y.zero();
  }
  return record<GeluLinearNode>(std::move(y), {&pre, &weight2, &bias2}, std::move(hidden),
                                std::move(matrix));
}

}  // namespace lockstep
