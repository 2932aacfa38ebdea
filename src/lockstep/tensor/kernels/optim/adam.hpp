#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one Adam step (PyTorch's torch.optim.Adam and AdamW).
struct AdamUpdate {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;  ///< AdamW: the decay shrinks the parameter, not the gradient
  std::int64_t step = 1;   ///< t, from 1
  double gradient_factor = 1.0;
};

/// One pass over a parameter p with gradient g and moments m (exp_avg), v (exp_avg_sq), all of one
/// shape and dtype (f32 or f64):
///   g *= gradient_factor;  decoupled ? p *= 1 - lr weight_decay : g += weight_decay p
///   m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
///   p -= lr / (1 - beta1^t) m / (sqrt(w / (1 - beta2^t)) + eps)
/// w is v; with AMSGrad, which is asked for by a defined `max_exp_avg_sq`, it is the largest v so
/// far, which that tensor holds. The gradient itself is left as it is. Throws ShapeError if shapes
/// or dtypes differ.
/// Source: Kingma, Ba 2015 (arXiv:1412.6980), algorithm 1; Loshchilov, Hutter 2019
/// (arXiv:1711.05101), algorithm 2; Reddi, Kale, Kumar 2018 (arXiv:1904.09237), algorithm 2, with
/// torch.optim's place of eps and maximum of the uncorrected v.
void adam_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                 const Tensor& exp_avg_sq, const Tensor& max_exp_avg_sq, const AdamUpdate& update);

}  // namespace lockstep
