#pragma once
#include <lockstep/tensor/kernels/elementwise/dropout.hpp>

namespace lockstep {

/// The part of dropout_scale that a rank needs of longer rows: scale[N,n] gets elements
/// [first, first + n) of each row. Draws no others.
void dropout_scale_run(double p, const RandomKey& key, std::int64_t first, const Tensor& scale);

}  // namespace lockstep
