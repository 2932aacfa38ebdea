#pragma once
#include <lockstep/tensor/tensor.hpp>

// p-norms of the rows of x[rows, width]; f32 or f64. Intermediate values neither overflow nor
// underflow: f32 is summed in double, f64 relative to a row's largest element where its squares
// would.

namespace lockstep {

/// y[rows] = (sum |x|^p)^(1/p); the largest |x| for p = infinity, the smallest for -infinity, the
/// number of those that are not 0 for p = 0. An empty row gives 0.
void vector_norm_forward(const Tensor& x, double p, const Tensor& y);

/// grad_x (+)= the gradient; 0 where y is 0 and for p = 0. Equal largest elements share it evenly.
void vector_norm_backward(const Tensor& grad_y, const Tensor& x, const Tensor& y, double p,
                          bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
