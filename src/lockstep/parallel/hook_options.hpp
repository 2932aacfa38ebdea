#pragma once
#include <cstdint>

namespace lockstep {

/// Like PyTorch's PowerSGDState, with its defaults.
struct PowerSgdOptions {
  /// Rank of the low-rank approximation of a gradient; at least 1.
  std::int64_t matrix_approximation_rank = 1;
  /// Before this step gradients are all-reduced uncompressed: the first ones change fast. At least
  /// 0.
  std::int64_t start_step = 1000;
  /// A gradient of two dimensions or more is compressed if it has more than this many times the
  /// elements that would be sent; above 0.
  double min_compression_rate = 2.0;
  /// Adds a step's compression error to the next step's gradient.
  bool use_error_feedback = true;
  /// A step starts from the previous step's directions instead of random ones.
  bool warm_start = true;
};

/// When local steps begin, and the period of parameter averaging from then on.
struct LocalSgdOptions {
  std::int64_t start_step = 100;
  std::int64_t period = 4;
};

}  // namespace lockstep
