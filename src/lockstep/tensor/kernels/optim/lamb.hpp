#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one LAMB step.
struct LambUpdate {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.0;
  bool adapt = true;      ///< false: the trust ratio is 1, Adam with decoupled weight decay
  std::int64_t step = 1;  ///< t, from 1
  double gradient_factor = 1.0;
};

/// One step of a layer's parameter x with gradient g and moments m (exp_avg), v (exp_avg_sq), all
/// of one shape and dtype (f32 or f64), where |x| is the Euclidean norm:
///   g *= gradient_factor;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
///   u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay x
///   x -= lr |x| / |u| u
/// The ratio |x| / |u| is 1 where one of them is 0, so that a layer of zeros can leave them. Norms
/// are summed in double in an order that depends on the number of elements alone. The gradient
/// itself is left as it is. Throws ShapeError if shapes or dtypes differ.
/// Source: You et al. 2020 (arXiv:1904.00962), algorithm 2 with phi(z) = z.
void lamb_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                 const Tensor& exp_avg_sq, const LambUpdate& update);

}  // namespace lockstep
