#pragma once
#include <memory>
#include <vector>

#include <lockstep/parallel/shard_sum.hpp>

namespace lockstep {

/// What a step leaves behind beside gradients, the same whoever computes which shard: the mean
/// loss, and the module's buffers. Each shard's forward finds the buffers of the step's beginning;
/// the step leaves the mean of what the shards with samples made of them: BatchNorm's running
/// statistics move by the mean of the shards' statistics.
class ShardBuffers {
 public:
  /// `buffers` are on the host. Collective, as memory of the group is taken.
  ShardBuffers(ProcessGroup& group, const ShardTree& tree, std::vector<Tensor> buffers);

  /// A step begins, if none is under way: what buffers hold now is what each of its shards finds.
  /// Called before each forward. Local.
  void forward_begins();
  /// The shard at hand has samples; their part of the mean loss over the batch. Local.
  void add_loss(double part);
  /// The shard at hand is over, and is not this rank's last. Local.
  void keep();
  /// This rank's last shard is over: returns when loss and buffers are there, the same bits on all
  /// ranks. Collective.
  void finish(ProcessGroup& group);
  /// In this step the rank's shards, so many, take turns: each finds the buffers of its beginning,
  /// whatever the others have made of theirs. The first is at hand. Local.
  void take_turns(std::int64_t shards);
  /// `from` is no longer at hand, `to` is, as it was last. Local.
  void change(std::int64_t from, std::int64_t to);
  /// The step failed: buffers are as at its beginning. Local.
  void forget();

  /// Mean over the batch of the last step.
  [[nodiscard]] double loss() const noexcept { return loss_; }

 private:
  void note_shard();
  void restore();

  std::vector<Tensor> buffers_, before_;  ///< now; at the step's beginning
  Tensor sum_;                            ///< f64: shards with samples, loss, the buffers' elements
  std::vector<Tensor> places_;            ///< of the buffers in it
  std::unique_ptr<ShardSum> over_shards_;
  bool under_way_ = false;    ///< a step
  bool has_samples_ = false;  ///< the shard at hand
  double shard_loss_ = 0.0;
  struct NotAtHand {
    std::vector<Tensor> buffers;
    bool has_samples = false;
    double loss = 0.0;
  };
  std::vector<NotAtHand> turns_;  ///< of this rank's shards
  double loss_ = 0.0;
};

}  // namespace lockstep
