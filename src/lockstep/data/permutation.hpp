#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// The order in which an epoch visits the samples: a permutation of 0 to n-1 that is a function of
/// (seed, epoch) alone, the same on every rank. Fisher and Yates' shuffle (Knuth, TAOCP 2, 3.4.2,
/// algorithm P) with unbiased Philox numbers.
class Permutation {
 public:
  /// Epoch 0's order; without `shuffle` always 0, 1, 2 ... Throws InputError if n is negative or
  /// 2^32 or more.
  Permutation(std::int64_t n, std::uint64_t seed, bool shuffle = true);

  /// Computes the order of `epoch` in place: O(n), no allocation.
  void set_epoch(std::int64_t epoch);

  /// Valid until the next set_epoch.
  [[nodiscard]] std::span<const std::int64_t> indices() const noexcept { return indices_; }

 private:
  std::vector<std::int64_t> indices_;
  std::uint64_t seed_;
  bool shuffle_;
};

}  // namespace lockstep
