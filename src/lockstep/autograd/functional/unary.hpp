#pragma once
#include <lockstep/autograd/variable.hpp>
#include <lockstep/tensor/kernels/elementwise/unary.hpp>

namespace lockstep::detail {

/// f of each element of x, recorded: what functional/arithmetic.cpp and functional/activation.cpp
/// make their functions of one element of.
[[nodiscard]] Variable unary(const UnaryFunction& f, const Variable& x);

}  // namespace lockstep::detail
