#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one NAdam (PyTorch's torch.optim.NAdam) step.
struct NAdamUpdate {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;   ///< the decay shrinks the parameter, not the gradient
  double mu = 0.0;          ///< mu_t
  double next_mu = 0.0;     ///< mu_(t+1)
  double mu_product = 0.0;  ///< mu_1 mu_2 ... mu_t
  std::int64_t step = 1;    ///< t, from 1
  double gradient_factor = 1.0;
};

/// One pass over a parameter p with gradient g and moments m (exp_avg), v (exp_avg_sq), all of one
/// shape and dtype (f32 or f64):
///   g *= gradient_factor;  decoupled ? p *= 1 - lr weight_decay : g += weight_decay p
///   m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
///   p -= lr ((1 - mu_t) / (1 - mu_product) g + mu_(t+1) / (1 - mu_product mu_(t+1)) m)
///        / (sqrt(v / (1 - beta2^t)) + eps)
/// Throws ShapeError if shapes or dtypes differ. Source: Dozat 2016 (Incorporating Nesterov
/// Momentum into Adam), algorithm 2.
void nadam_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                  const Tensor& exp_avg_sq, const NAdamUpdate& update);

}  // namespace lockstep
