#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one RAdam (PyTorch's torch.optim.RAdam) step.
struct RAdamUpdate {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;  ///< the decay shrinks the parameter, not the gradient
  std::int64_t step = 1;   ///< t, from 1
  double gradient_factor = 1.0;
};

/// One pass over a parameter p with gradient g and moments m (exp_avg), v (exp_avg_sq), all of one
/// shape and dtype (f32 or f64):
///   g *= gradient_factor;  decoupled ? p *= 1 - lr weight_decay : g += weight_decay p
///   m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2;  m' = m / (1 - beta1^t)
///   R = 2 / (1 - beta2) - 1;  r = R - 2 t beta2^t / (1 - beta2^t)
///   r > 5: p -= lr m' sqrt(1 - beta2^t) / (sqrt(v) + eps)
///               sqrt((r - 4) (r - 2) R / ((R - 4) (R - 2) r))
///   else:  p -= lr m'
/// Throws ShapeError if shapes or dtypes differ. Source: Liu et al. 2020 (arXiv:1908.03265),
/// algorithm 2, with torch.optim's limit of 5 and place of eps.
void radam_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                  const Tensor& exp_avg_sq, const RAdamUpdate& update);

}  // namespace lockstep
