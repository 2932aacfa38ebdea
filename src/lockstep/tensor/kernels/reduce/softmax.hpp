#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// y = exp(x - max) / sum(exp(x - max)) along dimension `dim` (negative counts from the end).
/// One floating dtype, same shape.
void softmax_forward(const Tensor& x, int dim, const Tensor& y);

/// grad_x (+)= y (grad_y - sum(grad_y y)) along `dim`, with y of softmax_forward.
void softmax_backward(const Tensor& grad_y, const Tensor& y, int dim, bool accumulate,
                      const Tensor& grad_x);

/// y = x - max - log(sum(exp(x - max))) along dimension `dim` (negative counts from the end).
/// One floating dtype, same shape.
void log_softmax_forward(const Tensor& x, int dim, const Tensor& y);

/// grad_x (+)= grad_y - exp(y) * sum(grad_y) along `dim`, with y of log_softmax_forward; from x if
/// that has 16 bits, as exp(y) of a rounded y would be several units of rounding off.
void log_softmax_backward(const Tensor& grad_y, const Tensor& x_or_y, int dim, bool accumulate,
                          const Tensor& grad_x);

}  // namespace lockstep
