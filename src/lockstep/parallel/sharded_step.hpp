#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/nn/layers/batch_norm.hpp>
#include <lockstep/parallel/shard_buffers.hpp>
#include <lockstep/parallel/shard_gradients.hpp>
#include <lockstep/parallel/shard_hook.hpp>
#include <lockstep/parallel/shard_turns.hpp>

namespace lockstep {

/// Where a rank stands among its shards of a batch, and what has come of those that are over. They
/// are computed one after the other; or, if they are to wait for each other in layers that take
/// statistics of the whole batch, in turns.
class ShardedStep {
 public:
  /// Throws InputError if the group's ranks cannot hold `shards`. Collective.
  ShardedStep(std::shared_ptr<ProcessGroup> group, std::int64_t shards,
              std::vector<Tensor> buffers);

  /// For the Reducer, which starts a bucket's sum when this rank's last shard has made it ready.
  [[nodiscard]] std::shared_ptr<ShardHook> hook() const noexcept { return hook_; }
  /// Shards of this rank, the first of which is first() of the batch.
  [[nodiscard]] std::int64_t own() const noexcept { return own_.last - own_.first; }
  [[nodiscard]] std::int64_t first() const noexcept { return own_.first; }
  /// Shards of the whole batch.
  [[nodiscard]] std::int64_t all() const noexcept { return tree_.shards(); }
  void forward_begins() { buffers_.forward_begins(); }
  void add_loss(double part) { buffers_.add_loss(part); }
  /// No shard of the step is over.
  [[nodiscard]] bool at_first() const noexcept { return next_ == own_.first; }
  /// The gradients of the shard at hand are kept apart from the buckets: it has its turn, or is not
  /// this rank's last of the step.
  [[nodiscard]] bool keeps_apart() const noexcept { return in_turns() || next_ + 1 < own_.last; }
  /// Those of the shard at hand, where they are kept apart. Throws Error for a shard whose turn it
  /// is and to which nothing is to be added any more. Local.
  [[nodiscard]] ShardGradients& gradients_at_hand();
  void forget_at_hand() noexcept { shard_at_hand().gradients.forget(); }
  /// Nothing will be added to them. Local.
  void at_hand_is_over();
  /// This rank's last shard is over and its gradients are on the way: returns when everything else
  /// is there. Collective.
  void finish();
  /// The step failed. Local.
  void give_up();

  [[nodiscard]] double loss() const noexcept { return buffers_.loss(); }

  /// The Reducer has these buckets. With `layers`, whose batch is that of all shards from now on,
  /// shards take turns; `change` is called between two of them. Collective.
  void prepare(std::span<const Bucket> buckets, std::span<nn::BatchNorm* const> layers,
               ShardTurns::Change change);
  /// Whether shards take turns where forward is collective: with one a rank there is no need.
  [[nodiscard]] bool has_turns() const noexcept { return turns_ && own() > 1; }
  /// A shard has its turn.
  [[nodiscard]] bool in_turns() const noexcept { return has_turns() && turns_->is_running(); }
  /// body(shard of this rank) for each, in turns, then the gradients of all but the last are kept.
  /// Throws Error for a body that has not called backward() outside no_sync(), and what a body
  /// throws; the step has failed then. Local but for what bodies do.
  void take_turns(const std::function<void(std::int64_t)>& body);
  /// After that: the gradients of the last are the parameters', in the buckets.
  void give_last();
  /// Of the shard whose turn it is: see ShardTurns.
  [[nodiscard]] double seconds_stood() const noexcept {
    return in_turns() ? turns_->seconds_stood() : 0.0;
  }

 private:
  struct Shard {
    ShardGradients gradients;
    bool is_over = false;
    void begin_anew() noexcept {
      gradients.forget();
      is_over = false;
    }
  };
  [[nodiscard]] Shard& shard_at_hand();
  void keep_next();
  void expect_all_over() const;

  std::shared_ptr<ProcessGroup> group_;
  ShardTree tree_;
  ShardRange own_;
  std::int64_t next_;
  std::shared_ptr<ShardHook> hook_;
  ShardBuffers buffers_;
  std::shared_ptr<ShardTurns> turns_;  ///< null: nothing is synchronised
  std::vector<Shard> shard_;           ///< of this rank, unless there is one
};

}  // namespace lockstep
