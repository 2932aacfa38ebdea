#pragma once
#include <cstdint>

#include <lockstep/autograd/variable.hpp>

namespace lockstep {

/// Rows of weight[V,D] by index (i64 or i32, any shape) -> [..., D]. The gradient of a row used
/// twice is the sum; row `padding_idx` (-1: none) gets none. On the host throws InputError for an
/// index outside [0, V).
[[nodiscard]] Variable embedding(const Tensor& index, const Variable& weight,
                                 std::int64_t padding_idx = -1);

}  // namespace lockstep
