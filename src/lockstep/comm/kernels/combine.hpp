#pragma once
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// y = y (op) x, element by element; avg adds, as sum does (the division comes once, at the end).
/// f32, f64, i32, i64, u8; integer sums wrap around. Same shape, dtype and device.
void combine(ReduceOp op, const Tensor& x, const Tensor& y);

}  // namespace lockstep
