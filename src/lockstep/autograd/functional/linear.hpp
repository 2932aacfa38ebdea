#pragma once
#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// x[..., in] weight[out, in]^T + bias[out] (bias may be undefined) -> [..., out]. Of one 16-bit
/// type as they are, with sums in f32 and results rounded once; beside a bias in f32 the result is
/// f32. Throws ShapeError, printing the shapes and dtypes, unless they fit.
[[nodiscard]] Variable linear(const Variable& x, const Variable& weight, const Variable& bias);
/// The same for backward alone: all values are 0, and nothing is multiplied. For a second forward
/// whose last values are not needed (nn::Recomputed).
[[nodiscard]] Variable linear_without_values(const Variable& x, const Variable& weight,
                                             const Variable& bias);

/// linear(gelu(linear(x, weight1, bias1)), weight2, bias2), with gelu by tanh: x[..., in],
/// weight1[hidden, in], bias1[hidden], weight2[out, hidden], bias2[out] -> [..., out]. Both biases
/// are defined. Throws ShapeError as linear() does. On a GPU, of 16 bits (variables, or Autocast),
/// gelu is part of the product before it, of sums not yet rounded, and its slope, at these sums as
/// kept, of the one behind, where the library has them. For backward alone if `with_values` is
/// false: the result's values are 0.
[[nodiscard]] Variable linear_gelu_linear(const Variable& x, const Variable& weight1,
                                          const Variable& bias1, const Variable& weight2,
                                          const Variable& bias2, bool with_values = true);

}  // namespace lockstep
