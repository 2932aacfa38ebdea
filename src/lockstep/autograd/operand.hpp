#pragma once
#include <lockstep/autograd/variable.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep {

/// An argument of an operation. Operations calculate in f32 or f64: instead of a bf16 or f16
/// variable they see its f32 copy, and record() rounds their results to that type, once (PyTorch's
/// opmath), unless an argument of another floating type is among theirs. Gradients come back the
/// same way, in the type of each variable.
class Operand : public Variable {
 public:
  Operand() = default;
  Operand(const Variable& x) : Variable(x) {  // NOLINT(google-explicit-constructor): what it is for
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

/// What products of a and b are computed in: the 16-bit type that both are of, else what this
/// thread says (PrecisionGuard).
[[nodiscard]] Precision precision_of_product(const Operand& a, const Operand& b) noexcept;

}  // namespace lockstep
