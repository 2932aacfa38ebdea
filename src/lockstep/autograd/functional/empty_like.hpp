#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Uninitialised, with the shape, dtype and device of x.
[[nodiscard]] inline Tensor empty_like(const Tensor& x) {
  return Tensor::empty(x.shape(), x.dtype(), x.device());
}

}  // namespace lockstep
