#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// y = log(sum(exp(x))) along `dim`, which y lacks or holds with extent 1; the largest element is
/// subtracted first. f32 or f64. A dimension without elements, or of -inf alone, gives -inf.
void logsumexp_forward(const Tensor& x, int dim, const Tensor& y);

/// grad_x (+)= grad_y exp(x - y), with y of logsumexp_forward.
void logsumexp_backward(const Tensor& grad_y, const Tensor& x, const Tensor& y, int dim,
                        bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
