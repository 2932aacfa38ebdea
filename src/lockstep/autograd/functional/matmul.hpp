#pragma once
#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// Matrix product of the last two dimensions; leading ones are broadcast. An operand of one
/// dimension is a row (a) or a column (b), and that dimension disappears from the result.
[[nodiscard]] Variable matmul(const Operand& a, const Operand& b);

/// a[B,n,k] b[B,k,m] -> [B,n,m].
[[nodiscard]] Variable bmm(const Operand& a, const Operand& b);

}  // namespace lockstep
