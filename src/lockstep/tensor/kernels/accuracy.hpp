#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// How many rows of scores[N, C] (f32 or f64) have their largest element, the first among equals,
/// at target[N] (i64). A row with a NaN counts as wrong.
[[nodiscard]] std::int64_t count_correct(const Tensor& scores, const Tensor& target);

}  // namespace lockstep
