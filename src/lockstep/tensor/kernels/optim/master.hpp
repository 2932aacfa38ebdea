#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Where `parameter`, bf16 or f16, is not what `master`, f32, rounds to, somebody has written to
/// it: there master becomes its value. Elsewhere it keeps the bits that were rounded off. Same
/// shape. Throws ShapeError.
void follow_parameter(const Tensor& parameter, const Tensor& master);

}  // namespace lockstep
