#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Shards [first, last) of a batch.
struct ShardRange {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] std::int64_t size() const noexcept { return last - first; }
  friend bool operator==(const ShardRange&, const ShardRange&) = default;
};

/// The order in which values of the shards of a batch are summed, whatever ranks hold them: a
/// binary tree. A node is a range of shards, and the sum of its two halves; where their number is
/// odd, the first half is smaller by one.
class ShardTree {
 public:
  /// Throws InputError for less than one shard.
  explicit ShardTree(std::int64_t shards);

  [[nodiscard]] std::int64_t shards() const noexcept { return shards_; }
  /// Whether `left` and `right` are the two halves of a node.
  [[nodiscard]] bool are_halves(ShardRange left, ShardRange right) const noexcept;

  /// The shards of one of `ranks` ranks: the same number for each, in rank order. Throws
  /// InputError, which lists the possible numbers of ranks, if `ranks` does not divide the shards.
  [[nodiscard]] ShardRange of_rank(int rank, int ranks) const;

 private:
  std::int64_t shards_;
};

/// The nodes of a tree whose sums are known and not yet added to their other halves. Sums are
/// pushed in the order of their shards.
class ShardStack {
 public:
  explicit ShardStack(const ShardTree& tree) : tree_(tree) {}

  /// Pushes `node`. Returns how many times the caller has to add the topmost sum to the one below
  /// it, which replaces both.
  [[nodiscard]] int push(ShardRange node);
  [[nodiscard]] const std::vector<ShardRange>& nodes() const noexcept { return nodes_; }
  [[nodiscard]] std::int64_t height() const noexcept { return std::ssize(nodes_); }
  void clear() noexcept { nodes_.clear(); }

 private:
  ShardTree tree_;
  std::vector<ShardRange> nodes_;
};

/// The sum of a flat tensor over all shards of a batch, in the order of ShardTree: the same bits
/// whatever ranks hold the shards. A step calls keep() for each shard of this rank but the last,
/// then start() for the last one, whose value is in the tensor, then finish().
/// With one or two ranks, each of which has one node of the tree, the sum is an all-reduce.
/// Otherwise each rank sums a part of the elements and gathers the other parts.
class ShardSum {
 public:
  /// `value` is contiguous, f32 or f64; for the all-reduce best in memory of the group. Throws
  /// InputError for other types, and where ShardTree::of_rank does. Allocates all that is needed.
  ShardSum(const ProcessGroup& group, const ShardTree& tree, Tensor value);

  /// Like `value`: where the value of a shard of this rank, counted from 0, is best computed.
  /// keep() then copies nothing.
  [[nodiscard]] const Tensor& place_of(std::int64_t shard) const;
  /// `value` is the next shard's: keeps it, or its sum with earlier ones. Local.
  void keep(const Tensor& value);
  /// `value` is that of this rank's last shard. Collective.
  [[nodiscard]] Work start(ProcessGroup& group);
  /// To be called when that Work is complete; returns when `value` is the sum. Collective.
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
  ShardStack stack_;          ///< of what is in kept_, and on top of it in value_
  std::vector<Tensor> kept_;  ///< sums of this rank that are not yet added to their other half
  std::vector<std::vector<ShardRange>> nodes_;  ///< of each rank, after its last shard
  bool by_all_reduce_ = false;
  Tensor sent_, received_;  ///< [ranks, nodes, part of the elements]
  Tensor part_, gathered_;  ///< [part], [ranks, part]
};

}  // namespace lockstep
