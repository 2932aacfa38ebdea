#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/parallel/comm_hook.hpp>
#include <lockstep/parallel/shard_sum.hpp>

namespace lockstep {

/// Sums the gradients of each bucket over the shards of the batch (ShardSum), instead of over
/// ranks.
class ShardHook final : public CommHook {
 public:
  explicit ShardHook(const ShardTree& tree) : tree_(tree) {}

  [[nodiscard]] std::string name() const override;
  void prepare(ProcessGroup& group, std::span<const Bucket> buckets) override;
  [[nodiscard]] Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override;
  void finish(const Bucket& bucket, std::size_t index) override;

  /// ShardSum::place_of, for each bucket.
  [[nodiscard]] std::vector<Tensor> places_of(std::int64_t shard) const;
  /// Keeps the gradients, of each bucket, of this rank's next shard, which is not its last. Local.
  void keep(std::span<const Tensor> gradients);
  /// Drops the kept gradients. Local.
  void forget() noexcept;

 private:
  ShardTree tree_;
  ProcessGroup* group_ = nullptr;
  std::vector<std::unique_ptr<ShardSum>> sums_;  ///< per bucket
};

/// Takes the gradients of a shard that is not its rank's last, in place of the parameters.
class ShardGradients final : public GradSink {
 public:
  /// memory[i] is a zeroed tensor like buckets[i].gradients, or these gradients themselves.
  ShardGradients(std::span<const Bucket> buckets, std::vector<Tensor> memory);

  [[nodiscard]] bool takes(const Variable& leaf) const override { return find(leaf) != nullptr; }
  [[nodiscard]] GradTarget target(const Variable& leaf) override;

  void forget() noexcept;
  /// Multiplies the gradients, if there are any.
  void scale(double factor) const;
  /// Per bucket, for ShardHook::keep. A parameter without a gradient is zero and unused; the answer
  /// to ask_along is no.
  [[nodiscard]] const std::vector<Tensor>& complete();

 private:
  struct Place {
    Variable variable;
    Tensor gradient, use;  ///< in the bucket's memory
    bool present = false;
  };
  [[nodiscard]] const Place* find(const Variable& leaf) const;

  std::vector<Place> places_;    ///< by address of the variable's record
  std::vector<Tensor> answers_;  ///< per bucket: passed only with the rank's last shard
  std::vector<Tensor> memory_;
};

}  // namespace lockstep
