#pragma once
#include <lockstep/tensor/tensor.hpp>

// The Gaussian negative log-likelihood of targets t under means x and variances v, of which none
// counts as less than eps: (log v + (x - t)^2 / v) / 2, and, if `full`, + log(2 pi) / 2. All of one
// shape and dtype, f32 or f64. Nix, Weigend 1994 (ICNN), equation 3.

namespace lockstep {

void gaussian_nll_forward(const Tensor& x, const Tensor& target, const Tensor& var, bool full,
                          double eps, const Tensor& losses);

/// grad (+)= the losses' derivative by x, or by v (as if it had not been raised to eps, as
/// PyTorch's) times grad_loss / divisor; grad_loss has one element, or x's shape.
void gaussian_nll_backward_x(const Tensor& grad_loss, double divisor, const Tensor& x,
                             const Tensor& target, const Tensor& var, double eps, bool accumulate,
                             const Tensor& grad);
void gaussian_nll_backward_var(const Tensor& grad_loss, double divisor, const Tensor& x,
                               const Tensor& target, const Tensor& var, double eps, bool accumulate,
                               const Tensor& grad);

}  // namespace lockstep
