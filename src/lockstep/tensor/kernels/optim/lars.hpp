#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The numbers of one LARS step.
struct LarsUpdate {
  double lr = 1e-3;
  double momentum = 0.9;
  double weight_decay = 0.0;
  double trust_coefficient = 1e-3;
  bool adapt = true;  ///< false: the trust ratio is 1, momentum SGD with the rate inside
  double gradient_factor = 1.0;
};

/// One step of a layer's parameter w with gradient g and momentum v (momentum_buffer), all of one
/// shape and dtype (f32 or f64), where |x| is the Euclidean norm:
///   g *= gradient_factor
///   ratio = trust_coefficient |w| / (|g| + weight_decay |w|)
///   v = momentum v + lr ratio (g + weight_decay w);  w -= v
/// The ratio is 1 where |w| or |g| is 0, so that a layer of zeros can leave them. Norms are summed
/// in double in an order that depends on the number of elements alone. The gradient itself is left
/// as it is. Throws ShapeError if shapes or dtypes differ.
/// Source: You, Gitman, Ginsburg 2017 (arXiv:1708.03888), algorithm 1.
void lars_update(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum_buffer,
                 const LarsUpdate& update);

}  // namespace lockstep
