#pragma once
#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// x[..., in] weight[out, in]^T + bias[out] (bias may be undefined) -> [..., out].
[[nodiscard]] Variable linear(const Operand& x, const Operand& weight, const Operand& bias);
/// The same for backward alone: all values are 0, and nothing is multiplied. For a second forward
/// whose last values are not needed (nn::Recomputed).
[[nodiscard]] Variable linear_without_values(const Operand& x, const Operand& weight,
                                             const Operand& bias);

}  // namespace lockstep
