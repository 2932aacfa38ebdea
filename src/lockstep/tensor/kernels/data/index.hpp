#pragma once
#include <lockstep/tensor/tensor.hpp>

// Elements picked along one dimension by an index for each: index is i64 of as many dimensions as
// x; its extents but that of `dim` are at most x's. Any floating dtype.

namespace lockstep {

/// The index to compute with: on the host `index` itself. Throws ShapeError with both shapes if
/// they do not match; InputError with the position for an index outside [0, x.size(dim)). On a
/// device 0 replaces a wrong index, and the error is thrown when the host waits (index_check.hpp).
[[nodiscard]] Tensor checked_gather(const Tensor& x, int dim, const Tensor& index);

/// y[..., i, ...] = x[..., index[..., i, ...], ...]; y has the index's shape.
void gather_forward(const Tensor& x, int dim, const Tensor& index, const Tensor& y);

/// grad_x[..., index[..., i, ...], ...] += grad_y[..., i, ...], after zeroing grad_x unless
/// `accumulate`; contributions to one element are added in the order of i, those of 16 bits in f32.
void gather_backward(const Tensor& grad_y, int dim, const Tensor& index, bool accumulate,
                     const Tensor& grad_x);

/// indices = the first position along `dim` at which x equals `values` (two NaN count as equal).
/// values and indices (i64) lack `dim` or hold it with extent 1. f32 or f64.
void find_along(const Tensor& x, int dim, const Tensor& values, const Tensor& indices);

}  // namespace lockstep
