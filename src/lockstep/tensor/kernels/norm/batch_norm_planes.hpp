#pragma once
// Helpers of batch_norm's kernels for images in plain layout. Private to their .cpp files.
#include <lockstep/tensor/kernels/channel_parts.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep::detail {

struct ChannelStatistics {
  double mean, variance;
};

/// Mean and biased variance of channel c of x(n, c, p): the mean first, then the squares of the
/// distances from it, in Wide, added up in double from sample to sample.
template <class Wide, class X, class Lanes>
KOKKOS_FUNCTION ChannelStatistics statistics_of_channel(const X& x, std::int64_t c,
                                                        std::int64_t samples, double count,
                                                        const Lanes& lanes) {
  double total = 0;
  for (std::int64_t n = 0; n < samples; ++n) {
    total += lanes.sum([&](std::int64_t p) { return static_cast<Wide>(x(n, c, p)); });
  }
  const double mean = total / count;
  const Wide center = static_cast<Wide>(mean);
  double squares = 0;
  for (std::int64_t n = 0; n < samples; ++n) {
    squares += lanes.sum([&](std::int64_t p) {
      const Wide distance = static_cast<Wide>(x(n, c, p)) - center;
      return distance * distance;
    });
  }
  const double rounding = mean - static_cast<double>(center);
  return {mean, squares / count - rounding * rounding};
}

}  // namespace lockstep::detail
