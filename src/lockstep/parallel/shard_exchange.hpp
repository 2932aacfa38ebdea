#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include <lockstep/autograd/functional/batch_norm.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/parallel/shard_tree.hpp>
#include <lockstep/parallel/shard_turns.hpp>

namespace lockstep {

/// The shards of a batch as batch_norm wants them: it gets their statistics in the order of
/// shards, and sums in that of ShardTree, so that its bits do not depend on who holds which. Called
/// by each of a rank's shards in its turn. It calls on the group's twin, on the thread that runs
/// the turns, once for all shards of the rank.
class ShardExchange final : public StatisticsExchange {
 public:
  /// The ranks of `group` share the tree's shards evenly, and `turns` has as many as one of them.
  /// Collective over it.
  ShardExchange(ProcessGroup& group, const ShardTree& tree, std::shared_ptr<ShardTurns> turns);

  [[nodiscard]] Tensor gather(const Tensor& mine) const override;
  void sum(const Tensor& t) const override;

 private:
  /// Puts a shard's t beside those of the rank's others; when all have come, of_all_ has those of
  /// all ranks, and `then` runs. `what` names the call, by address.
  void bring(const Tensor& t, const char* what, const std::function<void()>& then) const;

  std::shared_ptr<ProcessGroup> group_;
  ShardTree tree_;
  std::int64_t own_;
  std::shared_ptr<ShardTurns> turns_;
  // Of the exchange under way, which a layer's forward and backward only see as const:
  mutable Tensor memory_;  ///< grows; in it
  mutable Tensor rows_;    ///< [own shards, n], which ranks of a machine can read
  mutable const char* what_ = nullptr;
  mutable Tensor of_all_;  ///< [shards, n]
  mutable ShardPile pile_;
};

}  // namespace lockstep
