#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one Adagrad (PyTorch's torch.optim.Adagrad) step.
struct AdagradUpdate {
  double lr = 1e-2;
  double lr_decay = 0.0;
  double weight_decay = 0.0;
  double eps = 1e-10;
  std::int64_t step = 1;  ///< t, from 1
  double gradient_factor = 1.0;
};

/// One pass over a parameter p with gradient g and sum of squares s, all of one shape and dtype
/// (f32 or f64):
///   g = gradient_factor g + weight_decay p;  s += g^2
///   p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
/// Throws ShapeError if shapes or dtypes differ. Source: Duchi, Hazan, Singer 2011 (JMLR 12),
/// figure 1, diagonal.
void adagrad_update(const Tensor& parameter, const Tensor& gradient, const Tensor& sum,
                    const AdagradUpdate& update);

}  // namespace lockstep
