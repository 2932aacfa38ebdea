#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one SGD step (PyTorch's torch.optim.SGD).
struct SgdUpdate {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  bool first = false;  ///< momentum_buffer holds nothing yet: b = g
  double gradient_factor = 1.0;
};

/// One pass over a parameter p with gradient g and momentum buffer b, all of one shape and dtype
/// (f32 or f64); b is neither read nor written, and may be undefined, if momentum is 0:
///   g = gradient_factor g + weight_decay p;  b = first ? g : momentum b + (1 - dampening) g
///   p -= lr (momentum == 0 ? g : nesterov ? g + momentum b : b)
/// The gradient itself is left as it is. Throws ShapeError if shapes or dtypes differ.
/// Source: torch.optim.SGD; Sutskever, Martens, Dahl, Hinton, ICML 2013.
void sgd_update(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum_buffer,
                const SgdUpdate& update);

}  // namespace lockstep
