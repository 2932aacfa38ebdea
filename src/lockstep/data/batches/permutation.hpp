#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/data/batches/epoch_order.hpp>

namespace lockstep {

class PhiloxSequence;

/// How much of the samples' own order an epoch keeps.
struct Shuffle {
  bool on = true;  ///< false: the order is 0, 1, 2 ...
  /// 0: every order is equally likely. Otherwise the samples are cut into pieces of window / 8
  /// neighbours, the pieces are put in a random order, and each run of `window` positions is then
  /// shuffled on its own. So a batch touches 8 or 16 places of the data set, which suits data read
  /// in slabs (data.stream), and distant samples still meet.
  std::int64_t window = 0;
};

/// The order of the samples in an epoch: a permutation of 0 to n-1, a function of (seed, epoch)
/// alone, the same on every rank. Fisher and Yates' shuffle (Knuth, TAOCP 2, 3.4.2, algorithm P)
/// with unbiased Philox numbers.
class Permutation final : public EpochOrder {
 public:
  /// Epoch 0's order. Throws InputError if n is negative or 2^32 or more, or the window is
  /// negative.
  Permutation(std::int64_t n, std::uint64_t seed, const Shuffle& shuffle = {});

  /// Computes the order of `epoch` in place: O(n), no allocation.
  void set_epoch(std::int64_t epoch) override;

  [[nodiscard]] std::span<const std::int64_t> indices() const noexcept override { return indices_; }

 private:
  [[nodiscard]] std::int64_t piece_size() const noexcept;
  void lay_out_pieces(PhiloxSequence& random);

  std::vector<std::int64_t> indices_;
  std::uint64_t seed_;
  Shuffle shuffle_;
  std::vector<std::int64_t> pieces_;  // used by a windowed shuffle
};

}  // namespace lockstep
