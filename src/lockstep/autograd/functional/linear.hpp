#pragma once
#include <cstdint>

#include <lockstep/autograd/variable.hpp>

namespace lockstep {

/// x[..., in] weight[out, in]^T + bias[out] (bias may be undefined) -> [..., out].
[[nodiscard]] Variable linear(const Variable& x, const Variable& weight, const Variable& bias);

/// Matrix product of the last two dimensions; leading ones are broadcast. An operand of one
/// dimension is a row (a) or a column (b), and that dimension disappears from the result.
[[nodiscard]] Variable matmul(const Variable& a, const Variable& b);

/// a[B,n,k] b[B,k,m] -> [B,n,m].
[[nodiscard]] Variable bmm(const Variable& a, const Variable& b);

/// Rows of weight[V,D] by index (i64, any shape) -> [..., D]. The gradient of a row used twice is
/// the sum; row `padding_idx` (-1: none) gets none. On the host throws InputError for an index
/// outside [0, V).
[[nodiscard]] Variable embedding(const Tensor& index, const Variable& weight,
                                 std::int64_t padding_idx = -1);

}  // namespace lockstep
