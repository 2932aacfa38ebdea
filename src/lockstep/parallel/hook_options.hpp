#pragma once
#include <cstdint>

namespace lockstep {

/// As PyTorch's PowerSGDState, with its defaults.
struct PowerSgdOptions {
  /// Rank of the product that replaces a gradient; at least 1.
  std::int64_t matrix_approximation_rank = 1;
  /// Before this step gradients are all-reduced as they are: the first ones change fast. At least
  /// 0.
  std::int64_t start_step = 1000;
  /// A gradient of two dimensions or more is compressed if its elements are more than so many times
  /// those sent; above 0.
  double min_compression_rate = 2.0;
  /// What a step leaves out is added to the next one's gradient.
  bool use_error_feedback = true;
  /// A step starts from the directions that the one before has found, instead of random ones.
  bool warm_start = true;
};

/// When gradients are no longer summed over all ranks, and how often parameters are averaged
/// instead.
struct LocalSgdOptions {
  std::int64_t start_step = 100;
  std::int64_t period = 4;
};

}  // namespace lockstep
