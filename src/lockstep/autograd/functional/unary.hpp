#pragma once
#include <lockstep/autograd/variable.hpp>
#include <lockstep/tensor/kernels/elementwise/unary.hpp>

namespace lockstep::detail {

/// Records f of each element of x: functional/arithmetic.cpp and functional/activation.cpp build
/// their elementwise functions from it.
[[nodiscard]] Variable unary(const UnaryFunction& f, const Variable& x);

}  // namespace lockstep::detail
