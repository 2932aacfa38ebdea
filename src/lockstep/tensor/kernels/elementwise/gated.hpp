#pragma once
#include <lockstep/tensor/tensor.hpp>

// Activations with a second operand, of one floating dtype; prelu: f32 or f64.

namespace lockstep {

/// y = x, or w x where x <= 0; weight is repeated to x's shape (broadcast.hpp).
void prelu_forward(const Tensor& x, const Tensor& weight, const Tensor& y);
/// grad_x (+)= grad_y, or w grad_y where x <= 0.
void prelu_backward(const Tensor& grad_y, const Tensor& x, const Tensor& weight, bool accumulate,
                    const Tensor& grad_x);
/// parts = x grad_y where x <= 0, else 0: the terms of the weight's gradient.
void prelu_weight_parts(const Tensor& grad_y, const Tensor& x, const Tensor& parts);

/// y = a sigmoid(b), where a and b are the halves of x along `dim`, whose extent is even.
void glu_forward(const Tensor& x, int dim, const Tensor& y);
void glu_backward(const Tensor& grad_y, const Tensor& x, int dim, bool accumulate,
                  const Tensor& grad_x);

/// y (+)= where condition (bool) a, else b; each is repeated to y's shape. An undefined a or b
/// stands for zeros.
void where_copy(const Tensor& condition, const Tensor& a, const Tensor& b, bool accumulate,
                const Tensor& y);

}  // namespace lockstep
