#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Order along one dimension; f32 or f64, on the host or a simulated device. NaN is larger than
// everything, as in PyTorch; among equals the first comes first, also if descending.

namespace lockstep {

/// values and indices (i64), of x's shape: x in order, and where each element was.
void sort_along(const Tensor& x, int dim, bool descending, const Tensor& values,
                const Tensor& indices);

/// The `values.size(dim)` largest elements, or smallest, in order, and where they are.
void topk_along(const Tensor& x, int dim, bool largest, const Tensor& values,
                const Tensor& indices);

/// grad_x[..., index, ...] (+)= grad_y along `dim`; what no index names is 0 or stays.
void scatter_along(const Tensor& grad_y, const Tensor& indices, int dim, bool accumulate,
                   const Tensor& grad_x);

}  // namespace lockstep
