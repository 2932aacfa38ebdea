#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/parallel/shard_tree.hpp>

namespace lockstep {

/// The sum of `node` of a tree has come and lies in row `row` of rows[n, elements]: adds to it what
/// can be added. The sums on the pile lie in the first rows, the topmost last.
void add_to_pile(ShardPile& pile, ShardRange node, const Tensor& rows, std::int64_t row);

/// The sum of a flat tensor over all shards of a batch, in the order of ShardTree: the same bits
/// whatever ranks hold the shards. A step calls keep() for each shard of this rank but the last,
/// then start() for the last one, whose value is in the tensor, then finish().
/// With one or two ranks, each of which has a node of the tree, that is an all-reduce; otherwise
/// every rank sums a part of the tensor's elements and gathers the others' sums.
class ShardSum {
 public:
  /// `value` is contiguous, f32 or f64; for the all-reduce best in memory of the group. Throws
  /// InputError for other types, and where ShardTree::of_rank does. Allocates all that is needed.
  ShardSum(const ProcessGroup& group, const ShardTree& tree, Tensor value);

  /// Like the tensor given at construction: where the value of a shard of this rank, counted from
  /// 0, is best put while shards follow one another, since there it is kept without a copy.
  [[nodiscard]] const Tensor& place_of(std::int64_t shard) const;
  /// `value` is the next shard's: keeps it, or what it adds up to with earlier ones. Local.
  void keep(const Tensor& value);
  /// `value` is the last shard's of this rank. Collective.
  [[nodiscard]] Work start(ProcessGroup& group);
  /// That Work is over: returns when `value` is the sum. Collective.
  void finish(ProcessGroup& group);
  /// Forgets shards that were kept. Local.
  void forget() noexcept;

 private:
  void add_to_kept(const Tensor& value, bool last);
  void pack();
  void sum_own_part();

  ShardTree tree_;
  ShardRange own_;            ///< this rank's shards
  std::int64_t next_;         ///< of them
  Tensor value_;              ///< flat
  ShardPile pile_;            ///< what lies in kept_, and on top of it in value_
  std::vector<Tensor> kept_;  ///< sums of this rank that wait for their other half
  std::vector<std::vector<ShardRange>> nodes_;  ///< of each rank, once its last shard is there
  bool by_all_reduce_ = false;
  Tensor sent_, received_;  ///< [ranks, nodes, part of the elements]
  Tensor part_, gathered_;  ///< [part], [ranks, part]
};

}  // namespace lockstep
