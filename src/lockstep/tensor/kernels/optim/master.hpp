#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Where `parameter`, bf16 or f16, differs from the rounded `master`, f32, other code has written
/// to it: there master takes its value. Elsewhere master keeps its low-order bits. Same shape.
/// Throws ShapeError.
void follow_parameter(const Tensor& parameter, const Tensor& master);

}  // namespace lockstep
