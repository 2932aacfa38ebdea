#pragma once
#include <lockstep/autograd/operand.hpp>

namespace lockstep::detail {

/// Whether kernels take x as it is (is_native) and the parameters, which are Operands or undefined,
/// were given in its dtype. For operations whose kernels store x and the result in 16 bits and take
/// their few parameters in f32.
template <class... Parameters>
bool is_native_beside(const Variable& x, const Parameters&... parameters) {
  const auto is_alike = [&](const Operand& parameter) {
    return !parameter.defined() || parameter.given().data().dtype() == x.data().dtype();
  };
  return is_native(x) && (is_alike(parameters) && ...);
}

/// apply(x), with x itself if it is_native_beside the parameters, else with its Operand.
template <class Apply, class... Parameters>
Variable natively_beside(const Apply& apply, const Variable& x, const Parameters&... parameters) {
  if (is_native_beside(x, parameters...)) return apply(x);
  return apply(static_cast<const Variable&>(Operand(x)));
}

}  // namespace lockstep::detail
