#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one averaged SGD (PyTorch's torch.optim.ASGD) step.
struct AsgdUpdate {
  double lr = 1e-2;
  double lambd = 1e-4;  ///< how fast the parameter decays
  double alpha = 0.75;  ///< power of the rate's decay
  double t0 = 1e6;      ///< updates before averaging begins
  double weight_decay = 0.0;
  std::int64_t step = 1;  ///< t, from 1
  double gradient_factor = 1.0;
};

/// One pass over a parameter p with gradient g and average a (ax), all of one shape and dtype (f32
/// or f64):
///   eta = lr / (1 + lambd lr (t - 1))^alpha;  mu = 1 / max(1, t - 1 - t0)
///   g = gradient_factor g + weight_decay p;  p = (1 - lambd eta) p - eta g;  a += mu (p - a)
/// Throws ShapeError if shapes or dtypes differ. Source: Polyak, Juditsky 1992 (SIAM J. Control
/// Optim. 30); the decays are those of torch.optim.ASGD, where they are worked out one step early,
/// which matters only if the rate moves.
void asgd_update(const Tensor& parameter, const Tensor& gradient, const Tensor& ax,
                 const AsgdUpdate& update);

}  // namespace lockstep
