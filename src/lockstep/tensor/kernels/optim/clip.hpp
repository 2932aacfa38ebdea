#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The sum of all x^2, in double and in an order that depends on the number of elements alone.
/// f32 or f64; 0 for an empty tensor.
[[nodiscard]] double sum_of_squares(const Tensor& x);

/// The same into `sum`, f64 [1] on x's device: the host does not wait.
void sum_of_squares(const Tensor& x, const Tensor& sum);

/// The root of sum_of_squares(x), without the overflow and the loss that squares of very large and
/// small doubles have.
[[nodiscard]] double euclidean_norm(const Tensor& x);

/// x = min(max(x, -limit), limit); a NaN stays. f32 or f64.
void clamp(const Tensor& x, double limit);

}  // namespace lockstep
