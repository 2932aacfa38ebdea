#pragma once
#include <lockstep/tensor/precision.hpp>

namespace lockstep {

/// FLOP/s of one core in a product of two 512 x 512 matrices of f32 whose operands are rounded to
/// `precision`: an upper bound for a training step. The best of five, measured at the process'
/// first call, in about 10 ms.
[[nodiscard]] double product_speed(Precision precision);

}  // namespace lockstep
