#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one Adadelta (PyTorch's torch.optim.Adadelta) step.
struct AdadeltaUpdate {
  double lr = 1.0;
  double rho = 0.9;  ///< share of the running means that stays
  double eps = 1e-6;
  double weight_decay = 0.0;
  double gradient_factor = 1.0;
};

/// One pass over a parameter p with gradient g and running mean squares s (square_avg) of gradients
/// and d (acc_delta) of steps, all of one shape and dtype (f32 or f64):
///   g = gradient_factor g + weight_decay p;  s = rho s + (1 - rho) g^2
///   u = sqrt(d + eps) / sqrt(s + eps) g;  d = rho d + (1 - rho) u^2;  p -= lr u
/// Throws ShapeError if shapes or dtypes differ. Source: Zeiler 2012 (arXiv:1212.5701),
/// algorithm 1.
void adadelta_update(const Tensor& parameter, const Tensor& gradient, const Tensor& square_avg,
                     const Tensor& acc_delta, const AdadeltaUpdate& update);

}  // namespace lockstep
