#pragma once
// How sums over the values of each channel are spread over a device. Private to the kernels' .cpp
// files.
#include <algorithm>
#include <cstdint>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::detail {

/// x[N,C,...] as (samples, channels, positions); an image whose channels are last as (N H W, C, 1).
inline Shape planes(const Tensor& x) {
  if (x.layout() == Layout::channel_blocks) {
    const std::int64_t channels = x.size(4);
    return {channels == 0 ? 0 : x.numel() / channels, channels, 1};
  }
  const std::int64_t planes = x.size(0) * x.size(1);
  return {x.size(0), x.size(1), planes == 0 ? 0 : x.numel() / planes};
}

/// The values of each channel of x[N, C, P] in parts of equal length but for the last; each part
/// has its own sums, which are combined afterwards. Either a team sums a part of the channel's N P
/// values, or, where P is short, a thread sums a part of the N values at one position, so that
/// neighbouring threads read neighbouring addresses: where P is 1, of several channels at once.
struct ChannelParts {
  std::int64_t samples, channels, positions;
  bool by_columns;      ///< a thread a part
  std::int64_t length;  ///< values of a part but the last
  std::int64_t blocks;  ///< parts of a channel, or of each of its positions

  ChannelParts(const Shape& planes, std::size_t element_bytes)
      : samples(planes[0]),
        channels(planes[1]),
        positions(planes[2]),
        by_columns(positions * static_cast<std::int64_t>(element_bytes) < sector_bytes) {
    const std::int64_t all = std::max<std::int64_t>(values(), 1);
    if (by_columns) {
      // A thread with four channels at once: half as many threads, each with as many loads.
      const std::int64_t wanted = channels_are_last() ? 2 * threads : threads;
      length = std::max(share(all * columns(), wanted), fewest_of_a_thread);
    } else {
      const std::int64_t wanted = std::min(share(teams, channels), share(all, fewest_of_a_team));
      length = share(share(all, wanted), granule) * granule;
    }
    blocks = share(values(), length);
  }

  [[nodiscard]] LOCKSTEP_FUNCTION std::int64_t columns() const { return channels * positions; }
  /// Neighbouring values are of neighbouring channels.
  [[nodiscard]] bool channels_are_last() const { return positions == 1; }
  /// Values that are cut into blocks.
  [[nodiscard]] LOCKSTEP_FUNCTION std::int64_t values() const {
    return by_columns ? samples : samples * positions;
  }
  [[nodiscard]] LOCKSTEP_FUNCTION std::int64_t of_a_channel() const {
    return by_columns ? blocks * positions : blocks;
  }
  [[nodiscard]] LOCKSTEP_FUNCTION std::int64_t count() const { return channels * of_a_channel(); }

  /// Place of part i of channel c among all parts: those of a block side by side if by columns, so
  /// that threads store side by side, else those of a channel.
  [[nodiscard]] LOCKSTEP_FUNCTION std::int64_t index(std::int64_t c, std::int64_t i) const {
    if (!by_columns) return c * blocks + i;
    const std::int64_t block = i / positions;
    return block * columns() + c * positions + i - block * positions;
  }
  /// Values of part i of any channel.
  [[nodiscard]] LOCKSTEP_FUNCTION std::int64_t values_of(std::int64_t i) const {
    const std::int64_t rest = values() - (by_columns ? i / positions : i) * length;
    return rest < length ? rest : length;
  }

 private:
  static constexpr std::int64_t sector_bytes = 32;  // what a GPU reads at least
  // Enough for the 132 multiprocessors of 2048 threads of an H200.
  static constexpr std::int64_t teams = 2048, fewest_of_a_team = 4096;
  static constexpr std::int64_t threads = 1 << 17, fewest_of_a_thread = 16;
  static constexpr std::int64_t granule = 128;  // a part begins where packs and lines do

  static std::int64_t share(std::int64_t all, std::int64_t of) {
    return of == 0 ? 0 : (all + of - 1) / of;
  }
};

}  // namespace lockstep::detail
