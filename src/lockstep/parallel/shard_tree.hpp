#pragma once
#include <cstdint>
#include <vector>

namespace lockstep {

/// Shards [first, last) of a batch.
struct ShardRange {
  std::int64_t first = 0, last = 0;
  friend bool operator==(const ShardRange&, const ShardRange&) = default;
};

/// The one order in which what belongs to the shards of a batch is summed, whoever holds them: a
/// binary tree, in which a range of shards is the sum of its halves, the first one smaller by one
/// shard where the number is odd.
class ShardTree {
 public:
  /// Throws InputError for less than one shard.
  explicit ShardTree(std::int64_t shards);

  [[nodiscard]] std::int64_t shards() const noexcept { return shards_; }
  /// Whether `left` and `right` are the two halves of a node.
  [[nodiscard]] bool are_halves(ShardRange left, ShardRange right) const noexcept;

  /// The shards of one of `ranks` ranks: as many of them for each, in the order of ranks. Throws
  /// InputError, which says which numbers of ranks there may be, if `ranks` does not divide the
  /// shards.
  [[nodiscard]] ShardRange of_rank(int rank, int ranks) const;

 private:
  std::int64_t shards_;
};

/// Sums of neighbouring nodes, which arrive in the order of their shards: says which are to be
/// added when. Those that are left on the pile wait for shards that are not here.
class ShardPile {
 public:
  explicit ShardPile(const ShardTree& tree) : tree_(tree) {}

  /// `node` arrived and lies on top: how many times now the topmost is to be added to the one below
  /// it, which takes its place.
  [[nodiscard]] int push(ShardRange node);
  [[nodiscard]] const std::vector<ShardRange>& nodes() const noexcept { return nodes_; }
  [[nodiscard]] std::int64_t height() const noexcept { return std::ssize(nodes_); }
  void clear() noexcept { nodes_.clear(); }

 private:
  ShardTree tree_;
  std::vector<ShardRange> nodes_;
};

}  // namespace lockstep
