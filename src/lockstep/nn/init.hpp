#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep::nn {

/// A new f32 tensor with elements uniform in [-bound, bound), drawn from this thread's sequence
/// (manual_seed).
[[nodiscard]] Tensor uniform(const Shape& shape, double bound);

/// PyTorch's default of Linear and Conv2d weights: kaiming_uniform_(a = sqrt(5)), which is uniform
/// with bound 1 / sqrt(fan_in), fan_in = elements of one output's weights. He et al. 2015
/// (arXiv:1502.01852), section 2.2.
[[nodiscard]] Tensor default_weight(const Shape& shape);

/// PyTorch's default of their biases: uniform with the same bound.
[[nodiscard]] Tensor default_bias(std::int64_t outputs, std::int64_t fan_in);

}  // namespace lockstep::nn
