#pragma once
#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/variable.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep {

/// An argument of an operation whose kernels take f32 and f64: for a bf16 or f16 variable it sees
/// an f32 copy, and record() rounds their results to that type, once (PyTorch's opmath),
/// unless another argument has a different floating type or Autocast is enabled. Gradients come
/// back the same way, in the type of each variable.
class Operand : public Variable {
 public:
  Operand() = default;
  Operand(const Variable& x)
      : Variable(x) {  // NOLINT(google-explicit-constructor): conversion is its purpose
    if (x.defined() && is_half(x.data().dtype())) widen();
  }
  ~Operand() {
    if (given_.defined()) end_widening();
  }
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  /// The variable itself: for operations that may have nothing to do.
  [[nodiscard]] const Variable& given() const noexcept { return given_.defined() ? given_ : *this; }

 private:
  void widen();
  void end_widening() const noexcept;

  Variable given_;  ///< if this is a copy
};

/// Whether an operation whose kernels store 16 bits takes x as it is. Parameters go through an
/// Operand, since their gradients may live in f32 memory (Variable::set_grad_buffer).
[[nodiscard]] bool is_native(const Variable& x);

/// apply(xs...), with the variables themselves if they are of one dtype and kernels take them
/// (is_native), else with their Operands. For operations whose kernels store 16 bits: they round
/// their results once, as record() would, and neither the operation nor the graph holds f32 copies.
template <class Apply, class... Xs>
Variable natively(const Apply& apply, const Xs&... xs) {
  const DType dtypes[] = {xs.data().dtype()...};
  const bool one_dtype = ((xs.data().dtype() == dtypes[0]) && ...);
  if (one_dtype && (is_native(xs) && ...)) return apply(static_cast<const Variable&>(xs)...);
  return apply(static_cast<const Variable&>(Operand(xs))...);
}

/// The same, but under Autocast in f32: for operations whose results PyTorch's autocast keeps in
/// f32, as they need its precision or range.
template <class Apply, class... Xs>
Variable natively_outside_autocast(const Apply& apply, const Xs&... xs) {
  if (!autocast_enabled()) return natively(apply, xs...);
  return apply(static_cast<const Variable&>(Operand(xs))...);
}

/// The dtype of a loss of x: x's, but f32 under Autocast.
[[nodiscard]] DType loss_dtype(const Variable& x) noexcept;

/// Whether Autocast is enabled and rounds these operands of a product: each is f32, or of its
/// 16-bit type already, or undefined.
template <class... Xs>
bool are_autocast_operands(const Xs&... xs) {
  const auto is_operand = [](const Variable& x) {
    if (!x.defined()) return true;
    return x.data().dtype() == DType::f32 || x.data().dtype() == autocast_dtype();
  };
  return autocast_enabled() && (is_operand(xs) && ...);
}

/// x in Autocast's 16-bit type, if it is enabled and x is f32; else x itself.
[[nodiscard]] Variable autocast_operand(const Variable& x);

/// The precision of products of a and b: the 16-bit type if both have it, else this thread's
/// precision (PrecisionGuard).
[[nodiscard]] Precision precision_of_product(const Operand& a, const Operand& b) noexcept;

}  // namespace lockstep
