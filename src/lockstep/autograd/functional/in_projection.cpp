#include <lockstep/autograd/functional/in_projection.hpp>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/attention.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/linear_gradients.hpp>
#include <lockstep/autograd/operand.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>

namespace lockstep {
namespace {

/// Rows [i F, (i + 1) F) of a tensor with 3 F rows; undefined if `t` is.
Tensor third(const Tensor& t, std::int64_t i) {
  const std::int64_t rows = t.defined() ? t.size(0) / 3 : 0;
  return t.defined() ? t.slice(i * rows, (i + 1) * rows) : t;
}

class InProjectionNode : public MultiOutputNode<InProjectionNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0b01111;

  using Operands = std::array<Tensor, 4>;  ///< query, key, value and weight

  /// The operands as multiplied, after any rounding.
  explicit InProjectionNode(Operands operands) : operands_(std::move(operands)) {}

  void backward(std::span<const Tensor> grad_outputs) override {
    const GradTarget bias = grad_target(4), weight = grad_target(3);
    std::array<Tensor, 3> g;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto part = [i](const GradTarget& of) {
        return GradTarget{of.wanted, of.accumulate, third(of.tensor, static_cast<std::int64_t>(i))};
      };
      if (grad_outputs[i].defined()) {
        g[i] = grad_outputs[i].to(operands_[i].dtype());
        give_linear_gradients(grad_outputs[i], g[i], operands_[i], part(weight), part(bias));
        continue;
      }
      for (const GradTarget& of : {part(weight), part(bias)}) {
        if (of.wanted && !of.accumulate) of.tensor.zero();
      }
    }
    for (int i = 0; i < 3; ++i) {
      const Tensor& gradient = g[static_cast<std::size_t>(i)];
      if (!gradient.defined()) continue;
      if (const auto x = grad_target(i); x.wanted) {
        linear_backward_input(gradient, third(operands_[3], i), x.accumulate, x.tensor);
      }
    }
  }
  void differentiate(Differentiation& d) override {
    d.give_as([](std::span<const Variable> inputs) {
      const Variable &weight = inputs[3], &bias = inputs[4];
      const std::int64_t rows = weight.shape()[0] / 3;
      std::array<Variable, 3> outputs;
      for (std::size_t i = 0; i < 3; ++i) {
        const auto part = [&](const Variable& v) {
          return v.defined() ? narrow(v, 0, static_cast<std::int64_t>(i) * rows, rows) : v;
        };
        outputs[i] = linear(inputs[i], part(weight), part(bias));
      }
      return outputs;
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "in_projection"; }

 private:
  Operands operands_;
};

/// Of one dtype; a bias has it too, or is f32 beside 16 bits, and the outputs are of the bias's.
/// Under Autocast each is f32 or of its type, and the outputs have 16 bits.
std::array<Variable, 3> project(const std::array<const Variable*, 3>& operands,
                                const Variable& weight, const Variable& bias) {
  const Tensor& matrix = weight.data();
  Tensor shift = bias.defined() ? bias.data() : Tensor();
  if (matrix.dims() != 2 || matrix.size(0) % 3 != 0) {
    throw ShapeError("in_projection takes a weight [3F, E], not " + describe(matrix));
  }
  std::array<Tensor, 3> outputs;
  InProjectionNode::Operands narrow;
  narrow[3] = product_operand(matrix);
  const DType dtype = autocast_enabled() ? narrow[3].dtype()
                      : bias.defined()   ? shift.dtype()
                                         : operands[0]->data().dtype();
  if (bias.defined()) shift = shift.to(dtype);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto part = static_cast<std::int64_t>(i);
    const Tensor& x = operands[i]->data();
    const bool again = i > 0 && operands[i]->record() == operands[i - 1]->record();
    narrow[i] = again ? narrow[i - 1] : product_operand(x);
    outputs[i] = Tensor::empty(linear_shape(narrow[i], third(narrow[3], part), third(shift, part)),
                               dtype, x.device());
    linear_forward(narrow[i], third(narrow[3], part), third(shift, part), outputs[i]);
    count_flops(2 * outputs[i].numel() * matrix.size(1));
  }
  return record<InProjectionNode>(std::move(outputs),
                                  {operands[0], operands[1], operands[2], &weight, &bias},
                                  std::move(narrow));
}

}  // namespace

// As linear: only operands of different dtypes are copied.
std::array<Variable, 3> in_projection(const Variable& query, const Variable& key,
                                      const Variable& value, const Variable& weight,
                                      const Variable& bias) {
  if (are_autocast_operands(query, key, value, weight, bias)) {
    return project({&query, &key, &value}, weight, bias);
  }
  const DType dtype = weight.data().dtype();
  const auto fits = [&](const Variable& x) { return x.data().dtype() == dtype; };
  if (!fits(query) || !fits(key) || !fits(value)) {
    const Operand q(query), k(key), v(value);
    return project({&q, &k, &v}, Operand(weight), Operand(bias));
  }
  if (!bias.defined() || fits(bias)) return project({&query, &key, &value}, weight, bias);
  return project({&query, &key, &value}, weight, Operand(bias));
}

}  // namespace lockstep
