#pragma once
#include <lockstep/tensor/dims.hpp>
#include <lockstep/tensor/tensor.hpp>

// Copies between tensors of different shapes, of one floating dtype.

namespace lockstep {

/// Dimension d of y is dimension dims[d] of x: y (+)= x permuted. Every dimension comes once.
void permute_copy(const Tensor& x, const Dims& dims, bool accumulate, const Tensor& y);

/// y (+)= x repeated to y's shape (broadcast.hpp).
void expand_copy(const Tensor& x, bool accumulate, const Tensor& y);

/// y (+)= elements [start, start + y.size(dim)) of x's dimension `dim`.
void narrow_copy(const Tensor& x, int dim, std::int64_t start, bool accumulate, const Tensor& y);

/// Elements [start, start + x.size(dim)) of y's dimension `dim` (+)= x; others stay as they are.
void narrow_assign(const Tensor& x, int dim, std::int64_t start, bool accumulate, const Tensor& y);

}  // namespace lockstep
