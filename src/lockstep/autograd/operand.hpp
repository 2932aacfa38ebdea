#pragma once
#include <lockstep/autograd/variable.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep {

/// An argument of an operation. Operations compute in f32 or f64: for a bf16 or f16 variable they
/// see its f32 copy, and record() rounds their results to that type, once (PyTorch's opmath),
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

/// The precision of products of a and b: the 16-bit type if both have it, else this thread's
/// precision (PrecisionGuard).
[[nodiscard]] Precision precision_of_product(const Operand& a, const Operand& b) noexcept;

}  // namespace lockstep
