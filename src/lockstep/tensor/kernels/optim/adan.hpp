#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one Adan step.
struct AdanUpdate {
  double lr = 1e-3;
  double beta1 = 0.98;
  double beta2 = 0.92;
  double beta3 = 0.99;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool no_prox = false;   ///< the decay of AdamW instead of the proximal one
  std::int64_t step = 1;  ///< t, from 1
  double gradient_factor = 1.0;
};

/// One pass over a parameter p with gradient g, the gradient h of the step before (previous_grad),
/// means m (exp_avg), v (exp_avg_diff) and n (exp_avg_sq), all of one shape and dtype (f32 or f64):
///   g *= gradient_factor;  d = g - h, but 0 in the first step;  h = g
///   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) d
///   n = beta3 n + (1 - beta3) (g + beta2 d)^2
///   s = lr (m / (1 - beta1^t) + beta2 v / (1 - beta2^t)) / (sqrt(n / (1 - beta3^t)) + eps)
///   p = (p - s) / (1 + lr weight_decay), or with no_prox p = p (1 - lr weight_decay) - s
/// Throws ShapeError if shapes or dtypes differ. Source: Xie, Zhou, Li, Lin, Yan 2022
/// (arXiv:2208.06677), algorithm 1, whose betas are 1 - these, with the bias corrections and the
/// choice of no_prox of the authors' implementation.
void adan_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                 const Tensor& exp_avg_diff, const Tensor& exp_avg_sq, const Tensor& previous_grad,
                 const AdanUpdate& update);

}  // namespace lockstep
