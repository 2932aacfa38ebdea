#pragma once
#include <cstdint>

#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// (x - mean) / sqrt(var + eps) * weight + bias over each of `num_groups` groups of a sample's
/// channels, x[N,C, ...], with weight[C] and bias[C], which may be undefined (Wu, He 2018,
/// arXiv:1803.08494). Throws ShapeError unless the groups divide C.
[[nodiscard]] Variable group_norm(const Variable& x, std::int64_t num_groups,
                                  const Operand& weight = {}, const Operand& bias = {},
                                  double eps = 1e-5);

/// The same over each channel of each sample, x[N,C, ...] (Ulyanov et al. 2016, arXiv:1607.08022).
/// Throws ShapeError where a channel has a single value.
[[nodiscard]] Variable instance_norm(const Variable& x, const Operand& weight = {},
                                     const Operand& bias = {}, double eps = 1e-5);

/// x / (k + alpha / size s)^beta, s the sum of squares over `size` neighbouring channels, x[N,C,
/// ...] (Krizhevsky et al. 2012; the division by size is PyTorch's).
[[nodiscard]] Variable local_response_norm(const Operand& x, std::int64_t size, double alpha = 1e-4,
                                           double beta = 0.75, double k = 1.0);

}  // namespace lockstep
