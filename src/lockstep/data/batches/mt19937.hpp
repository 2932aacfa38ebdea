#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// Python's `random.Random(seed)`: MT19937 seeded by init_by_array (Matsumoto, Nishimura:
/// mt19937ar.c; std::mt19937 has no such seeding). Only for lists that must equal Python's;
/// Lockstep's own randomness is Philox.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint64_t seed);

  [[nodiscard]] std::uint32_t next_u32();
  /// random.randrange(n) for 1 <= n < 2^32: draws as many leading bits as n has until the number is
  /// below n.
  [[nodiscard]] std::uint32_t below(std::uint32_t n);
  /// random.shuffle(values). Throws Error for 2^32 values or more.
  void shuffle(std::vector<std::int64_t>& values);

 private:
  static constexpr std::size_t words = 624;
  void refill();

  std::array<std::uint32_t, words> state_{};
  std::size_t used_ = words;
};

}  // namespace lockstep
