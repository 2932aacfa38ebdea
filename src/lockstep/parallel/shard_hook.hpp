#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/parallel/comm_hook.hpp>
#include <lockstep/parallel/shard_sum.hpp>

namespace lockstep {

/// Gradients are summed over the shards of the batch in one order (ShardSum), instead of over
/// ranks.
class ShardHook final : public CommHook {
 public:
  explicit ShardHook(const ShardTree& tree) : tree_(tree) {}

  [[nodiscard]] std::string name() const override;
  void prepare(ProcessGroup& group, std::span<const Bucket> buckets) override;
  /// See ShardSum; of each bucket.
  [[nodiscard]] std::vector<Tensor> places_of(std::int64_t shard) const;
  /// The next shard of this rank, which is not its last, has these gradients, of each bucket.
  /// Local.
  void keep(std::span<const Tensor> gradients);
  [[nodiscard]] Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override;
  void finish(const Bucket& bucket, std::size_t index) override;
  /// Forgets what was kept. Local.
  void forget() noexcept;

 private:
  ShardTree tree_;
  ProcessGroup* group_ = nullptr;
  std::vector<std::unique_ptr<ShardSum>> sums_;  ///< of each bucket
};

}  // namespace lockstep
