#pragma once
#include <bit>
#include <cstddef>

namespace lockstep {

/// The sizes of cached blocks: 64 * 2^(octave) * (1 + step/4) bytes, at most 25 % above the
/// request. A freed block serves the next request of its class.
struct SizeClass {
  static constexpr std::size_t smallest = 64;
  static constexpr int steps_an_octave = 4;
  static constexpr int count = 48 * steps_an_octave;

  int index;
  std::size_t bytes;

  /// Above any machine's memory if `index` is not below `count`.
  [[nodiscard]] static SizeClass of(std::size_t bytes) {
    if (bytes <= smallest) return {0, smallest};
    const int octave = std::bit_width(bytes - 1) - 1 - std::countr_zero(smallest);
    const std::size_t base = smallest << octave;
    const std::size_t step_bytes = base / steps_an_octave;
    const std::size_t steps = (bytes - base + step_bytes - 1) / step_bytes;
    return {octave * steps_an_octave + static_cast<int>(steps), base + steps * step_bytes};
  }
};

}  // namespace lockstep
