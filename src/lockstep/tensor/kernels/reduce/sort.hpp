#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Order along one dimension; f32 or f64, on any device. NaN is larger than
// everything, as in PyTorch; among equals the first comes first, also if descending.

namespace lockstep {

/// values and indices (i64), of x's shape: x sorted, and each element's former index.
void sort_along(const Tensor& x, int dim, bool descending, const Tensor& values,
                const Tensor& indices);

/// The `values.size(dim)` largest elements, or smallest, sorted, and their indices.
void topk_along(const Tensor& x, int dim, bool largest, const Tensor& values,
                const Tensor& indices);

/// grad_x[..., index, ...] (+)= grad_y along `dim`; elements without an index become 0 or keep
/// their value.
void scatter_along(const Tensor& grad_y, const Tensor& indices, int dim, bool accumulate,
                   const Tensor& grad_x);

}  // namespace lockstep
