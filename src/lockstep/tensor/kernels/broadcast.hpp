#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The shape that a and b are repeated to under NumPy's rule: aligned at their last dimension, an
/// extent of 1, or a missing one, is repeated. Throws ShapeError, naming `operation` and printing
/// both tensors, if they do not fit or differ in dtype or device.
[[nodiscard]] Shape broadcast_shape(const char* operation, const Tensor& a, const Tensor& b);

/// Whether `shape` can be repeated to `full` under that rule.
[[nodiscard]] bool broadcasts_to(const Shape& shape, const Shape& full);

}  // namespace lockstep
