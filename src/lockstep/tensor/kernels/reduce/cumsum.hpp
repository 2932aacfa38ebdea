#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// y (+)= the sum of the elements of x up to and with each one along `dim`, or, `reverse`, from it
/// on: its own gradient. f32 (summed in double) or f64, one shape and dtype.
void cumsum(const Tensor& x, int dim, bool reverse, bool accumulate, const Tensor& y);

}  // namespace lockstep
