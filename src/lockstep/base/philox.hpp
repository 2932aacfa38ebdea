#pragma once
#include <array>
#include <cstdint>

namespace lockstep {

/// Philox4x32-10: a counter-based generator; the same (key, counter) gives the same four words on
/// every rank, in any order, on host and device. Salmon, Moraes, Dror, Shaw: "Parallel random
/// numbers: as easy as 1, 2, 3", SC'11, with the constants of its reference implementation
/// (Random123).
struct Philox {
  std::array<std::uint32_t, 2> key{};

  constexpr explicit Philox(std::uint64_t seed)
      : key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

  using Block = std::array<std::uint32_t, 4>;

  /// The four words of one counter. The parts of a counter identify the purpose of the number: e.g.
  /// (element, global sample, step, stream).
  [[nodiscard]] constexpr Block operator()(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                           std::uint32_t c3) const {
    Block c{c0, c1, c2, c3};
    std::uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
      c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
           static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    return c;
  }

  /// A word as a float in [0, 1): its upper 24 bits, so every value is exact.
  [[nodiscard]] static constexpr float uniform(std::uint32_t word) {
    return static_cast<float>(word >> 8) * 0x1.0p-24F;
  }
};

/// A sequence over one Philox stream, for host code that draws numbers one after another (shuffles,
/// initialization).
class PhiloxSequence {
 public:
  PhiloxSequence(std::uint64_t seed, std::uint64_t stream) : philox_(seed), stream_(stream) {}

  std::uint32_t next_u32() {
    if (used_ == 4) {
      block_ =
          philox_(static_cast<std::uint32_t>(counter_), static_cast<std::uint32_t>(counter_ >> 32),
                  static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32));
      ++counter_;
      used_ = 0;
    }
    return block_[used_++];
  }

  /// Unbiased in [0, n), n >= 1: Lemire, "Fast random integer generation in an interval", 2019.
  std::uint32_t below(std::uint32_t n) {
    std::uint64_t product = std::uint64_t{next_u32()} * n;
    if (static_cast<std::uint32_t>(product) < n) {
      const std::uint32_t threshold = (0U - n) % n;
      while (static_cast<std::uint32_t>(product) < threshold)
        product = std::uint64_t{next_u32()} * n;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  float uniform() { return Philox::uniform(next_u32()); }

 private:
  Philox philox_;
  std::uint64_t stream_;
  std::uint64_t counter_ = 0;
  Philox::Block block_{};
  unsigned used_ = 4;
};

}  // namespace lockstep
