#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/data/batches/permutation.hpp>

namespace lockstep {

/// Options of a DistributedSampler.
struct SamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  ///< drop the tail instead of padding it from the order's beginning
};

/// torch.utils.data.DistributedSampler: rank r takes every world-th sample of the epoch's order,
/// the same number on every rank. For users' own loops and the examples; the Trainer uses
/// BatchPlan, which pads nothing. Shuffled orders are Lockstep's, not PyTorch's: a function of seed
/// + epoch.
class DistributedSampler {
 public:
  /// Deals n samples to `world` ranks; epoch 0. Throws Error if rank is not in [0, world).
  DistributedSampler(std::int64_t n, int world, int rank, const SamplerOptions& options = {});

  /// Call at the start of every epoch, with the same number on all ranks; otherwise each epoch
  /// repeats the previous order. Allocates nothing.
  void set_epoch(std::int64_t epoch);

  /// This rank's samples, in order; valid until the next set_epoch.
  [[nodiscard]] std::span<const std::int64_t> indices() const noexcept { return mine_; }
  /// Samples per rank: ceil(n / world), or ceil((n - world) / world) with drop_last and a
  /// remainder.
  [[nodiscard]] std::int64_t num_samples() const noexcept { return num_samples_; }
  [[nodiscard]] std::int64_t total_size() const noexcept { return num_samples_ * world_; }

 private:
  std::int64_t n_, world_, rank_;
  SamplerOptions options_;
  std::int64_t num_samples_;
  Permutation order_;
  std::vector<std::int64_t> mine_;
};

}  // namespace lockstep
