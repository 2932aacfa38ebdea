#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/data/batches/epoch_order.hpp>

namespace lockstep {

/// Draws samples with replacement, sample i with probability w[i] / sum of w (PyTorch's
/// WeightedRandomSampler). Inverts the cumulative distribution at a counter-based uniform number of
/// 53 bits, one per draw.
class WeightedDraws final : public EpochOrder {
 public:
  /// `draws` per epoch. Throws InputError if a weight is negative or not finite, or all are 0.
  WeightedDraws(std::span<const double> weights, std::int64_t draws, std::uint64_t seed);

  void set_epoch(std::int64_t epoch) override;
  [[nodiscard]] std::span<const std::int64_t> indices() const noexcept override { return indices_; }

 private:
  std::vector<double> cumulative_;  ///< w[0] + ... + w[i]
  std::vector<std::int64_t> indices_;
  std::uint64_t seed_;
};

/// One weight per sample, with which every class that occurs is drawn equally often.
[[nodiscard]] std::vector<double> weights_that_balance(std::span<const std::int64_t> labels,
                                                       std::int64_t classes);

/// Number of samples of each class in [0, classes). Throws Error for a label outside.
[[nodiscard]] std::vector<std::int64_t> count_labels(std::span<const std::int64_t> labels,
                                                     std::int64_t classes);

}  // namespace lockstep
