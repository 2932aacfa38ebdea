#pragma once
#include <lockstep/tensor/kernels/loss.hpp>

// Losses of each element against a target of x's shape and dtype (f32 or f64).

namespace lockstep {

/// Throws ShapeError, naming `operation` and printing both, unless x and target fit.
void check_regression(const char* operation, const Tensor& x, const Tensor& target);

/// losses = (x - target)^2.
void mse_loss_forward(const Tensor& x, const Tensor& target, const Tensor& losses);

/// losses = max(x, 0) - x t + log(1 + exp(-|x|)), the logarithm of the sigmoid written so that
/// nothing overflows.
void binary_cross_entropy_forward(const Tensor& x, const Tensor& target, const Tensor& losses);

/// grad_x (+)= the losses' derivative times grad_loss / divisor; grad_loss has one element, or x's
/// shape.
void mse_loss_backward(const Tensor& grad_loss, double divisor, const Tensor& x,
                       const Tensor& target, bool accumulate, const Tensor& grad_x);
void binary_cross_entropy_backward(const Tensor& grad_loss, double divisor, const Tensor& x,
                                   const Tensor& target, bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
