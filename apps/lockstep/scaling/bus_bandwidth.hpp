#pragma once
#include <array>
#include <cstdint>

namespace lockstep::scaling {

enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast };
inline constexpr std::array collectives{Collective::all_reduce, Collective::all_gather,
                                        Collective::reduce_scatter, Collective::broadcast};
[[nodiscard]] constexpr const char* words(Collective kind) noexcept {
  constexpr std::array names{"all_reduce", "all_gather", "reduce_scatter", "broadcast"};
  return names[static_cast<std::size_t>(kind)];
}

/// Bus bandwidth over bytes a second of the larger of the two tensors: how many of its bytes cross
/// the busiest link, which makes figures of any number of ranks comparable with the hardware's.
/// NVIDIA/nccl-tests, doc/PERFORMANCE.md.
[[nodiscard]] constexpr double bus_factor(Collective kind, int ranks) noexcept {
  const double n = ranks;
  switch (kind) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n;
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return (n - 1) / n;
    case Collective::broadcast:
      break;
  }
  return 1;
}

}  // namespace lockstep::scaling
