#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// How many rows of scores[N, C] (f32 or f64) have one of their `k` largest elements, the first
/// among equals, at target[N] (i64). NaN counts as larger than any number, and as wrong; so does a
/// target that is not a class.
[[nodiscard]] std::int64_t count_correct(const Tensor& scores, const Tensor& target,
                                         std::int64_t k = 1);

/// The errors of outputs against targets.
struct Errors {
  double squares = 0;   ///< sum of (y - t)^2
  double absolute = 0;  ///< sum of |y - t|
  double largest = 0;   ///< largest |y - t|; infinite if one is NaN
};
/// Of y against t, of one shape and one dtype, f32 or f64; summed in f64.
[[nodiscard]] Errors errors_of(const Tensor& y, const Tensor& t);

}  // namespace lockstep
