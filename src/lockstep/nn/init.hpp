#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep::nn {

/// While it lives, these functions leave the elements of this thread's new parameters undefined and
/// unwritten: for a model whose names and shapes alone matter. The sequence of random numbers goes
/// on as without it. PyTorch's skip_init.
class SkipInit {
 public:
  SkipInit() noexcept;
  ~SkipInit();
  SkipInit(const SkipInit&) = delete;
  SkipInit& operator=(const SkipInit&) = delete;

 private:
  bool before_;
};

/// A new f32 tensor with elements uniform in [-bound, bound), drawn from this thread's sequence
/// (manual_seed).
[[nodiscard]] Tensor uniform(const Shape& shape, double bound);

/// The same for normal elements of mean 0.
[[nodiscard]] Tensor normal(const Shape& shape, double standard_deviation);

/// PyTorch's default of Linear and Conv2d weights: kaiming_uniform_(a = sqrt(5)), which is uniform
/// with bound 1 / sqrt(fan_in), fan_in = elements of one output's weights. He et al. 2015
/// (arXiv:1502.01852), section 2.2.
[[nodiscard]] Tensor default_weight(const Shape& shape);

/// PyTorch's default of their biases: uniform with the same bound.
[[nodiscard]] Tensor default_bias(std::int64_t outputs, std::int64_t fan_in);

/// PyTorch's kaiming_normal_(mode = "fan_out", nonlinearity = "relu"): normal with standard
/// deviation sqrt(2 / fan_out), fan_out = shape[0] * elements behind the second dimension. He et
/// al. 2015, section 2.2.
[[nodiscard]] Tensor kaiming_normal_fan_out(const Shape& shape);

}  // namespace lockstep::nn
