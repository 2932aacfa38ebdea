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

/// The same into `norm`, f64 [1] on x's device: the host does not wait.
void euclidean_norm(const Tensor& x, const Tensor& norm);

/// The norm of several tensors together, from the sum_of_squares of each in `squares`, f64 [n],
/// added in their order, into `norm`, f64 [1]. If these have overflowed or underflowed in double,
/// the result is computed from the euclidean_norm of each in `norms`, with the shape of `squares`,
/// if that is defined.
void norm_of_all(const Tensor& squares, const Tensor& norms, const Tensor& norm);

/// factor = min(1, max_norm / (norm + 1e-6)), f64 [1] both; NaN if the norm is.
void norm_clip_factor(const Tensor& norm, double max_norm, const Tensor& factor);

/// x = min(max(x, -limit), limit); a NaN stays. f32 or f64.
void clamp(const Tensor& x, double limit);

}  // namespace lockstep
