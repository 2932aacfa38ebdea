#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Elementwise; f32 or f64, tensors of one shape; NaN stays NaN. Backward: grad_x (+)= grad_y times
// the derivative, recomputed from the forward's input (x) or output (y): nothing else is stored.

namespace lockstep {

/// y = max(x, 0).
void relu_forward(const Tensor& x, const Tensor& y);

/// grad_x (+)= grad_y where y > 0, else 0. A NaN in y lets the gradient through, as in PyTorch.
void relu_backward(const Tensor& grad_y, const Tensor& y, bool accumulate, const Tensor& grad_x);

/// Gaussian error linear unit (Hendrycks and Gimpel 2016, arXiv:1606.08415): exact is
/// x (1 + erf(x / sqrt 2)) / 2, tanh its approximation
/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. As in PyTorch, both and silu give NaN for
/// -infinity (-infinity times 0, not the limit), and infinity for infinity; finite x never give
/// NaN, nor does their gradient.
enum class Gelu : std::uint8_t { exact, tanh };
void gelu_forward(const Tensor& x, Gelu approximation, const Tensor& y);
void gelu_backward(const Tensor& grad_y, const Tensor& x, Gelu approximation, bool accumulate,
                   const Tensor& grad_x);

/// y = x / (1 + exp(-x)).
void silu_forward(const Tensor& x, const Tensor& y);
void silu_backward(const Tensor& grad_y, const Tensor& x, bool accumulate, const Tensor& grad_x);

/// y = 1 / (1 + exp(-x)).
void sigmoid_forward(const Tensor& x, const Tensor& y);
void sigmoid_backward(const Tensor& grad_y, const Tensor& y, bool accumulate, const Tensor& grad_x);

void tanh_forward(const Tensor& x, const Tensor& y);
void tanh_backward(const Tensor& grad_y, const Tensor& y, bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
