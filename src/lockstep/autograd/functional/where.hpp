#pragma once
#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// a where `condition` (bool) is true, b where it is false; all three are broadcast.
[[nodiscard]] Variable where(const Tensor& condition, const Variable& a, const Variable& b);

}  // namespace lockstep
