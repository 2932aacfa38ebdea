#pragma once
#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// Matrix product of the last two dimensions; leading ones are broadcast. An operand of one
/// dimension is a row (a) or a column (b), and that dimension disappears from the result. Of one
/// 16-bit type as they are, with sums in f32 and results rounded once.
[[nodiscard]] Variable matmul(const Variable& a, const Variable& b);

/// a[B,n,k] b[B,k,m] -> [B,n,m].
[[nodiscard]] Variable bmm(const Variable& a, const Variable& b);

}  // namespace lockstep
