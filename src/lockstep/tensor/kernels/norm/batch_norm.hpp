#pragma once
#include <lockstep/tensor/tensor.hpp>

// y = relu((x - mean) * inverse_std * weight + bias + residual) for each channel of x (Ioffe and
// Szegedy 2015, arXiv:1502.03167), residual and relu where they are wanted: one pass over x where
// its channel fits into a core's private cache.

namespace lockstep {

/// The operands. Those like x and their gradients are of one floating dtype; those of channels and
/// their gradients are of that type too, f32 for one of 16 bits.
struct BatchNormInputs {
  Tensor x;                          ///< [N, C, ...], or an image in channel blocks
  Tensor weight, bias;               ///< [C]
  Tensor running_mean, running_var;  ///< [C]
  Tensor residual;                   ///< like x, or undefined
  bool relu = false;
};

/// The values that forward saves for backward, [C] each: of the batch in training, else of the
/// running statistics.
struct BatchNormSaved {
  Tensor mean, inverse_std;
};

/// The outputs for gradients; those of undefined tensors are not computed. `accumulate`: add to the
/// present values, else overwrite. If x and the residual share a gradient, the residual's goes
/// first.
struct BatchNormGradients {
  Tensor x, weight, bias, residual;
  bool accumulate_x = false, accumulate_weight = false, accumulate_bias = false;
  bool accumulate_residual = false;
};

/// Throws ShapeError, printing the shapes, unless x has two dimensions at least, the residual is
/// like x and the rest [C], of the dtypes above; and in training if a channel has a single value.
void check_batch_norm(const BatchNormInputs& inputs, bool training);

/// Writes y (like x) and `saved`. In training, mean and biased variance are the batch's: the mean
/// first, then the squares of the distances from it, added up in double from sample to sample; and
/// the running statistics become (1 - momentum) old + momentum new, with the unbiased variance. A
/// batch without elements leaves them alone.
void batch_norm_forward(const BatchNormInputs& inputs, bool training, double momentum, double eps,
                        const Tensor& y, const BatchNormSaved& saved);

/// The gradients for grad_y, from forward's y (read only with relu) and `saved`; a constant mean
/// and variance unless `training`.
void batch_norm_backward(const BatchNormInputs& inputs, bool training, const BatchNormSaved& saved,
                         const Tensor& y, const Tensor& grad_y,
                         const BatchNormGradients& gradients);

}  // namespace lockstep
