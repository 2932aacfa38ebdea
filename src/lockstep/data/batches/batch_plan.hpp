#pragma once
#include <cstdint>

namespace lockstep {

/// Positions [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Part number `part` of n things cut into `parts` contiguous parts; the first n % parts have one
/// more.
[[nodiscard]] Range part_of(std::int64_t n, std::int64_t parts, std::int64_t part);

/// A rank's share of one step's global batch.
struct Share {
  Range positions;                  ///< in the epoch's permutation
  std::int64_t first_in_batch = 0;  ///< position of the share's first sample in the global batch
  std::int64_t batch_size = 0;      ///< size of the global batch, over all ranks
  [[nodiscard]] std::int64_t size() const noexcept { return positions.size(); }
  friend bool operator==(const Share&, const Share&) = default;
};

/// Assigns the samples of an epoch to steps and ranks: arithmetic on (N, B, W) that any rank can do
/// for any other. Steps of an epoch count from 0 here. Global batch s is positions [sB, min((s+1)B,
/// N)) of the epoch's permutation. Rank r takes the r-th contiguous share; sizes differ by at most
/// one (the first ranks have the larger shares) and may be zero, so any W is legal. Ranks weigh by
/// share.size() / share.batch_size. With S shards a batch is first cut into S parts in the same
/// way, and each rank has S/W consecutive ones.
class BatchPlan {
 public:
  /// N samples in global batches of B. The last batch is smaller, or dropped with `drop_last`.
  /// Throws InputError if N or B is below 1, if B exceeds N with drop_last (no step would be left),
  /// or if `shards` is not 0 and not a multiple of the number of ranks.
  BatchPlan(std::int64_t samples, std::int64_t batch_size, int world, bool drop_last = false,
            std::int64_t shards = 0);

  [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }
  [[nodiscard]] std::int64_t batch_size() const noexcept { return batch_size_; }
  [[nodiscard]] int world() const noexcept { return static_cast<int>(world_); }
  /// ceil(N/B), floor with drop_last.
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }
  /// The largest share of `rank` in any step.
  [[nodiscard]] std::int64_t largest_share(int rank) const;

  /// Positions of the whole batch of `step` in [0, steps()). Throws Error outside.
  [[nodiscard]] Range batch(std::int64_t step) const;
  /// The share of it for `rank` in [0, world). Throws Error outside.
  [[nodiscard]] Share share(std::int64_t step, int rank) const;
  /// Part number `shard` in [0, shards) of that batch. Throws Error outside.
  [[nodiscard]] Share shard(std::int64_t step, std::int64_t shard) const;
  /// Parts of a batch; without shards, one per rank.
  [[nodiscard]] std::int64_t shards() const noexcept { return shards_; }

 private:
  [[nodiscard]] Share shards_of_batch(std::int64_t step, std::int64_t first,
                                      std::int64_t last) const;

  std::int64_t samples_, batch_size_, world_, shards_, steps_;
};

/// Plan of an evaluation: fixed batches of `batch_size` by sample number, independent of the number
/// of ranks, dealt round-robin: rank r has batches r, r + W, r + 2W ... No sample is counted twice.
class EvalPlan {
 public:
  /// Throws InputError if samples or batch_size is below 1.
  EvalPlan(std::int64_t samples, std::int64_t batch_size, int world);

  [[nodiscard]] std::int64_t batch_size() const noexcept { return batch_size_; }
  /// Number of batches over all ranks.
  [[nodiscard]] std::int64_t batches() const noexcept { return batches_; }
  /// Number of batches of `rank`.
  [[nodiscard]] std::int64_t batches_of(int rank) const;
  /// Number, in [0, batches()), of the k-th batch of `rank`.
  [[nodiscard]] std::int64_t batch_of(int rank, std::int64_t k) const { return rank + k * world_; }
  /// Sample numbers of a batch. Throws Error outside [0, batches()).
  [[nodiscard]] Range batch(std::int64_t batch) const;

 private:
  std::int64_t samples_, batch_size_, world_, batches_;
};

}  // namespace lockstep
