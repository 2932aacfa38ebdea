#pragma once
#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// x repeated to `shape` by broadcasting. Throws ShapeError if x cannot be broadcast to it.
[[nodiscard]] Variable expand(const Variable& x, const Shape& shape);

/// x summed over the dimensions in which `shape` is broadcast to x's: the opposite of expand.
/// Throws ShapeError unless it is.
[[nodiscard]] Variable sum_to_size(const Variable& x, const Shape& shape);

}  // namespace lockstep
