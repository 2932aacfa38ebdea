#include <lockstep/autograd/functional/matmul.hpp>

#include <lockstep/autograd/accumulate.hpp>
#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/operand.hpp>
#include <lockstep/autograd/trilinear.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/linalg/matmul.hpp>

namespace lockstep {
namespace {

/// <a b, g>, the operands in this order.
struct MatmulForm {
  static constexpr bool mixes_layouts = false;

  void derive(int by, const std::array<Tensor, 3>& operands, bool accumulate,
              const Tensor& to) const {
    const auto& [a, b, g] = operands;
    if (by == 0) return matmul_backward_a(g, b, accumulate, to);
    if (by == 1) return matmul_backward_b(g, a, accumulate, to);
    accumulate_into(to, accumulate,
                    [&](const Tensor& y) { matmul_forward(operands[0], operands[1], y); });
  }
  [[nodiscard]] static const char* name() noexcept { return "matmul"; }
};

Variable product_of(const Variable& a, const Variable& b) {
  Tensor y = Tensor::empty(matmul_shape(a.data(), b.data()), a.data().dtype(), a.data().device());
  count_flops(2 * y.numel() * a.shape()[-1]);
  return trilinear_derivative(MatmulForm{}, 2, {a, b, {}}, std::move(y));
}

}  // namespace

// Products take 16 bits, and give gradients of that type or f32, whichever memory of a parameter's
// gradient is. So only operands of different dtypes are copied.
Variable matmul(const Variable& a, const Variable& b) {
  if (are_autocast_operands(a, b)) return product_of(autocast_operand(a), autocast_operand(b));
  if (a.data().dtype() == b.data().dtype()) return product_of(a, b);
  return product_of(Operand(a), Operand(b));
}

Variable bmm(const Variable& a, const Variable& b) {
  if (a.shape().dims() != 3 || b.shape().dims() != 3 || a.shape()[0] != b.shape()[0]) {
    throw ShapeError("bmm of a " + describe(a.data()) + " and b " + describe(b.data()) +
                     ": it takes a [B, n, k] and b [B, k, m]");
  }
  return matmul(a, b);
}

}  // namespace lockstep
