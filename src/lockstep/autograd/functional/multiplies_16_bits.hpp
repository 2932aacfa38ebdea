#pragma once
#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::detail {

/// Whether a GPU (math/device_math.hpp) multiplies these in 16 bits: those that Autocast rounds, or
/// all of x's 16-bit type. The others may be undefined. Elsewhere an Operand widens them.
template <class... Others>
bool multiplies_16_bits(const Variable& x, const Others&... others) {
  if (!math::device_math(x.data().device())) return false;
  if (are_autocast_operands(x, others...)) return true;
  const DType dtype = x.data().dtype();
  const auto is_alike = [&](const Variable& other) {
    return !other.defined() || other.data().dtype() == dtype;
  };
  return is_half(dtype) && (is_alike(others) && ...);
}

}  // namespace lockstep::detail
