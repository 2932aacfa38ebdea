#pragma once
#include <array>

#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// query, key and value [..., E] each by its third of weight[3F,E] and bias[3F] (may be undefined)
/// -> [..., F] each. Copies nothing. 16 bits as in linear().
[[nodiscard]] std::array<Variable, 3> in_projection(const Variable& query, const Variable& key,
                                                    const Variable& value, const Variable& weight,
                                                    const Variable& bias);

}  // namespace lockstep
