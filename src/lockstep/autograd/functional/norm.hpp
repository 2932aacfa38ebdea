#pragma once
#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// (x - mean) / sqrt(var + eps) * weight + bias over the last weight.dims() dimensions, var biased
/// (Ba et al. 2016, arXiv:1607.06450). weight and bias have the shape of those dimensions; bias may
/// be undefined.
[[nodiscard]] Variable layer_norm(const Variable& x, const Operand& weight, const Operand& bias,
                                  double eps = 1e-5);

/// x / sqrt(mean(x^2) + eps) * weight over the last weight.dims() dimensions (Zhang and Sennrich
/// 2019, arXiv:1910.07467).
[[nodiscard]] Variable rms_norm(const Variable& x, const Operand& weight, double eps = 1e-6);

}  // namespace lockstep
