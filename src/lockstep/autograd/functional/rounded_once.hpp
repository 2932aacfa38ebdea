#pragma once
#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>

// For functions made of several operations: with 16-bit operands each operation would round, and a
// small or large constant between them would become 0 or infinite.

namespace lockstep::detail {

/// x, an operand of 16 bits in f32.
inline Variable widened(const Operand& x) {
  const Variable& given = x.given();
  return is_half(given.data().dtype()) ? to(given, DType::f32) : given;
}

/// y, a result of f32, in the 16-bit type that all operands are of, as record() rounds it; else,
/// and under Autocast, itself.
template <class... Operands>
Variable rounded_to_type_of(const Variable& y, const Operand& x, const Operands&... others) {
  const DType dtype = x.given().data().dtype();
  const bool alike = ((others.given().data().dtype() == dtype) && ...);
  return alike && is_half(dtype) && !autocast_enabled() ? to(y, dtype) : y;
}

/// Computes f(operands...) in f32 if they have 16 bits, and rounds once.
template <class F>
Variable rounded_once(const Operand& x, const F& f) {
  return rounded_to_type_of(f(widened(x)), x);
}
template <class F>
Variable rounded_once(const Operand& x1, const Operand& x2, const F& f) {
  return rounded_to_type_of(f(widened(x1), widened(x2)), x1, x2);
}
template <class F>
Variable rounded_once(const Operand& x1, const Operand& x2, const Operand& x3, const F& f) {
  return rounded_to_type_of(f(widened(x1), widened(x2), widened(x3)), x1, x2, x3);
}

}  // namespace lockstep::detail
