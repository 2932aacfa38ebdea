#pragma once
#include <lockstep/autograd/variable.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep {

/// An argument of an operation whose kernels take f32 and f64: for a bf16 or f16 variable it sees
/// an f32 copy, and record() rounds their results to that type, once (PyTorch's opmath),
/// unless another argument has a different floating type. Gradients come back the same way, in the
/// type of each variable.
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

/// The precision of products of a and b: the 16-bit type if both have it, else this thread's
/// precision (PrecisionGuard).
[[nodiscard]] Precision precision_of_product(const Operand& a, const Operand& b) noexcept;

}  // namespace lockstep
