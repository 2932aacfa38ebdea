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

/// The order in which values of a batch's shards are summed, independent of the ranks that hold
/// them: a binary tree. A node is a range of shards; its sum is that of its two halves. For an odd
/// number the first half has one less.
class ShardTree {
 public:
  /// Throws InputError for less than one shard.
  explicit ShardTree(std::int64_t shards);

  [[nodiscard]] std::int64_t shards() const noexcept { return shards_; }
  /// Whether `left` and `right` are the two halves of a node.
  [[nodiscard]] bool are_halves(ShardRange left, ShardRange right) const noexcept;

  /// The shards of one of `ranks` ranks: the same number for each, in rank order. Throws InputError
  /// with the possible numbers of ranks if `ranks` does not divide the shards.
  [[nodiscard]] ShardRange of_rank(int rank, int ranks) const;

 private:
  std::int64_t shards_;
};

/// Tree nodes whose sums are known but not yet added to their other halves. Sums are pushed in the
/// order of their shards.
class ShardStack {
 public:
  explicit ShardStack(const ShardTree& tree) : tree_(tree) {}

  /// Pushes `node`. Returns how many times the caller must add the topmost sum to the one below it,
  /// which replaces both.
  [[nodiscard]] int push(ShardRange node);
  [[nodiscard]] const std::vector<ShardRange>& nodes() const noexcept { return nodes_; }
  [[nodiscard]] std::int64_t height() const noexcept { return std::ssize(nodes_); }
  void clear() noexcept { nodes_.clear(); }

 private:
  ShardTree tree_;
  std::vector<ShardRange> nodes_;
};

/// Sums a flat tensor over all shards of a batch, in the order of ShardTree: the same bits whatever
/// ranks hold the shards. In a step, call keep() for each shard of this rank but the last, then
/// start() for the last one, whose value is in the tensor, then finish(). With one or two ranks,
/// each of which has one node of the tree, the sum is an all-reduce. Otherwise each rank sums a
/// part of the elements, and the parts are gathered.
class ShardSum {
 public:
  /// `value` is contiguous, f32 or f64; for the all-reduce preferably in memory of the group.
  /// Throws InputError for other types, and as ShardTree::of_rank does. Allocates everything.
  ShardSum(const ProcessGroup& group, const ShardTree& tree, Tensor value);

  /// A tensor like `value` in which this rank's shard number `shard`, from 0, is best computed:
  /// keep() then copies nothing.
  [[nodiscard]] const Tensor& place_of(std::int64_t shard) const;
  /// Keeps `value`, the next shard's, or its sum with earlier ones. Local.
  void keep(const Tensor& value);
  /// `value` is that of this rank's last shard. Collective.
  [[nodiscard]] Work start(ProcessGroup& group);
  /// Call when that Work is complete; returns when `value` is the sum. Collective.
  void finish(ProcessGroup& group);
  /// Drops the kept shards. Local.
  void forget() noexcept;

 private:
  void add_to_kept(const Tensor& value, bool last);
  void pack();
  void sum_own_part();

  ShardTree tree_;
  ShardRange own_;            ///< this rank's shards
  std::int64_t next_;         ///< number of shards kept
  Tensor value_;              ///< flat
  ShardStack stack_;          ///< nodes in kept_, and above them in value_
  std::vector<Tensor> kept_;  ///< sums of this rank not yet added to their other half
  std::vector<std::vector<ShardRange>> nodes_;  ///< per rank, after its last shard
  bool by_all_reduce_ = false;
  Tensor sent_, received_;  ///< [ranks, nodes, part of the elements]
  Tensor part_, gathered_;  ///< [part], [ranks, part]
};

}  // namespace lockstep
