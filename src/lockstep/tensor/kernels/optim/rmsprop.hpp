#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one RMSprop (PyTorch's torch.optim.RMSprop) step.
struct RmspropUpdate {
  double lr = 1e-2;
  double alpha = 0.99;  ///< share of the mean squares that stays
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  double gradient_factor = 1.0;
};

/// One pass over a parameter p with gradient g and mean square s (square_avg), all of one shape and
/// dtype (f32 or f64):
///   g = gradient_factor g + weight_decay p;  s = alpha s + (1 - alpha) g^2;  u = sqrt(s) + eps
///   p -= lr g / u
/// Centered, which is asked for by a defined `grad_avg` a: a += (1 - alpha) (g - a) and
/// u = sqrt(s - a^2) + eps. With momentum, asked for by a defined `momentum_buffer` b:
/// b = momentum b + g / u and p -= lr b. Throws ShapeError if shapes or dtypes differ.
/// Source: Hinton, Neural Networks for Machine Learning, lecture 6e; centered: Graves 2013
/// (arXiv:1308.0850), equations 38 to 40.
void rmsprop_update(const Tensor& parameter, const Tensor& gradient, const Tensor& square_avg,
                    const Tensor& grad_avg, const Tensor& momentum_buffer,
                    const RmspropUpdate& update);

}  // namespace lockstep
