#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include <lockstep/data/dataset.hpp>

namespace lockstep {

struct Shuffle;

/// The samples of an epoch, in order: a function of the constructor's seed and the epoch alone, the
/// same on every rank. One thread at a time.
class EpochOrder {
 public:
  virtual ~EpochOrder() = default;
  /// Computes the order of `epoch` in place, without allocating. Epoch 0 after construction.
  virtual void set_epoch(std::int64_t epoch) = 0;
  /// Sample numbers; valid until the next set_epoch.
  [[nodiscard]] virtual std::span<const std::int64_t> indices() const noexcept = 0;
};

/// The order for a training set: weighted draws if it has Datasets::sample_weights, else a
/// Permutation.
[[nodiscard]] std::unique_ptr<EpochOrder> make_order(const Datasets& data, std::uint64_t seed,
                                                     const Shuffle& shuffle);

}  // namespace lockstep
