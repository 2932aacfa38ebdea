#pragma once
#include <lockstep/tensor/tensor.hpp>

// y has the shape of x with some extents replaced by 1: those dimensions are reduced, as if y had
// been broadcast to x. Long dimensions are reduced in pieces of at most 4096
// elements and the pieces' results likewise: a sum of n elements goes through chains of some
// hundred additions, not of n, in an order that depends on the shapes alone.

namespace lockstep {

/// y (+)= sum(x) / divisor. One floating dtype, or one of 16 bits and the other f32; sums of 16
/// bits are f32 and rounded once.
void reduce_sum(const Tensor& x, double divisor, bool accumulate, const Tensor& y);

/// y = the largest elements; a NaN counts as larger than everything. A dimension without elements
/// gives -inf. f32 or f64.
void reduce_max(const Tensor& x, const Tensor& y);

}  // namespace lockstep
