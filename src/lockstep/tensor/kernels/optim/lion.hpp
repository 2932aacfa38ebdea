#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one Lion step.
struct LionUpdate {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.0;
  double gradient_factor = 1.0;
};

/// One pass over a parameter p with gradient g and mean m (exp_avg), all of one shape and dtype
/// (f32 or f64):
///   g *= gradient_factor;  p *= 1 - lr weight_decay
///   p -= lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g
/// where sign(0) = 0. Throws ShapeError if shapes or dtypes differ. Source: Chen et al. 2023
/// (arXiv:2302.06675), algorithm 2.
void lion_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                 const LionUpdate& update);

}  // namespace lockstep
