#pragma once
#include <lockstep/autograd/backward.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>

namespace lockstep {

/// Gives the gradients of linear's weight and bias that are wanted, in one product where a GPU's
/// library has it. `g` is `grad_output` in the dtype of x, the operand as multiplied.
inline void give_linear_gradients(const Tensor& grad_output, const Tensor& g, const Tensor& x,
                                  const GradTarget& weight, const GradTarget& bias) {
  const bool together =
      weight.wanted && bias.wanted && !bias.accumulate && g.dtype() == grad_output.dtype();
  if (together &&
      linear_backward_weight_and_bias(g, x, weight.accumulate, weight.tensor, bias.tensor)) {
    return;
  }
  if (bias.wanted) linear_backward_bias(grad_output, bias.accumulate, bias.tensor);
  if (weight.wanted) linear_backward_weight(g, x, weight.accumulate, weight.tensor);
}

}  // namespace lockstep
