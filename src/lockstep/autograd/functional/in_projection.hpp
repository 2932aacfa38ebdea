#pragma once
#include <array>

#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// query, key and value [..., E] each by its third of weight[3F,E] and bias[3F] (may be undefined)
/// -> [..., F] each. Copies nothing.
[[nodiscard]] std::array<Variable, 3> in_projection(const Operand& query, const Operand& key,
                                                    const Operand& value, const Operand& weight,
                                                    const Operand& bias);

}  // namespace lockstep
