#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// y = max(x, 0), elementwise; NaN stays NaN. f32 or f64, same shape.
void relu_forward(const Tensor& x, const Tensor& y);

/// grad_x (+)= grad_y where y > 0, else 0; `y` is what relu_forward made. A NaN in y lets the
/// gradient through, as in PyTorch.
void relu_backward(const Tensor& grad_y, const Tensor& y, bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
