#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/parallel/shard_buffers.hpp>
#include <lockstep/parallel/shard_hook.hpp>

namespace lockstep {

/// Where a rank stands among its shards of a batch, and what has come of those that are over.
class ShardedStep {
 public:
  /// Throws InputError if the group's ranks cannot hold `shards`. Collective.
  ShardedStep(std::shared_ptr<ProcessGroup> group, std::int64_t shards,
              std::vector<Tensor> buffers);

  /// For the Reducer, which starts a bucket's sum when this rank's last shard has made it ready.
  [[nodiscard]] std::shared_ptr<ShardHook> hook() const noexcept { return hook_; }
  /// Shards of this rank.
  [[nodiscard]] std::int64_t own() const noexcept { return own_.last - own_.first; }
  void forward_begins() { buffers_.forward_begins(); }
  void add_loss(double part) { buffers_.add_loss(part); }
  /// The shard at hand is this rank's last of the step.
  [[nodiscard]] bool at_last() const noexcept { return next_ + 1 == own_.last; }
  /// It is not, and its gradients are in the buckets. Local.
  void keep();
  /// It was, and its gradients are on the way: returns when everything else is there. Collective.
  void finish();
  /// The step failed. Local.
  void give_up();

  [[nodiscard]] double loss() const noexcept { return buffers_.loss(); }

 private:
  std::shared_ptr<ProcessGroup> group_;
  ShardTree tree_;
  ShardRange own_;
  std::int64_t next_;
  std::shared_ptr<ShardHook> hook_;
  ShardBuffers buffers_;
};

}  // namespace lockstep
