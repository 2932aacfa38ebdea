#pragma once
#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// x[..., in] weight[out, in]^T + bias[out] (bias may be undefined) -> [..., out]. Of one 16-bit
/// type as they are, with sums in f32 and results rounded once; beside a bias in f32 the result is
/// f32.
[[nodiscard]] Variable linear(const Variable& x, const Variable& weight, const Variable& bias);
/// The same for backward alone: all values are 0, and nothing is multiplied. For a second forward
/// whose last values are not needed (nn::Recomputed).
[[nodiscard]] Variable linear_without_values(const Variable& x, const Variable& weight,
                                             const Variable& bias);

}  // namespace lockstep
