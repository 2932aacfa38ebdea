#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one Adamax (PyTorch's torch.optim.Adamax) step.
struct AdamaxUpdate {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  std::int64_t step = 1;  ///< t, from 1
  double gradient_factor = 1.0;
};

/// One pass over a parameter p with gradient g, mean m (exp_avg) and weighted infinity norm u
/// (exp_inf), all of one shape and dtype (f32 or f64):
///   g = gradient_factor g + weight_decay p;  m += (1 - beta1) (g - m)
///   u = max(beta2 u, |g| + eps);  p -= lr / (1 - beta1^t) m / u
/// Throws ShapeError if shapes or dtypes differ. Source: Kingma, Ba 2015 (arXiv:1412.6980),
/// algorithm 2, with torch.optim's place of eps.
void adamax_update(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                   const Tensor& exp_inf, const AdamaxUpdate& update);

}  // namespace lockstep
