#pragma once
#include <lockstep/comm/node/depot.hpp>

namespace lockstep {

/// One collective on its way over several nodes: how it is cut into pieces, the same on every rank,
/// and what a rank does for each of them. It brings its part; when all of its node have, it
/// collects a share of what leaves the node; when the nodes' leaders have exchanged that, it takes
/// its result. Reductions go in rank order within a node, then in the nodes' order: same bits on
/// every rank and in every run. What 16-bit floats make within a node is rounded before it leaves.
class Crossing {
 public:
  /// What can cross: other collectives, and any with counts, go another way. The same on every rank
  /// of the group.
  [[nodiscard]] static bool fits(const NodeMap& map, const Operation& operation) noexcept;

  /// `max_count`: GroupOptions.
  Crossing(const NodeMap& map, const Operation& operation, std::int64_t max_count) noexcept;

  [[nodiscard]] std::int64_t pieces() const noexcept {
    return total_ == 0 ? 0 : (total_ - 1) / most_ + 1;
  }
  /// Elements of each rank's block; of reductions to every rank or one, and broadcasts, of the
  /// tensor.
  [[nodiscard]] Block piece(std::int64_t k) const noexcept {
    return {k * most_, std::min(most_, total_ - k * most_)};
  }
  /// Whether the piece is cut into shares, one a node: of a reduction, which that node sums for
  /// all; of a broadcast, which it sends on. Otherwise every node gets what all others bring, and
  /// its ranks sum it up, or the whole from the root's.
  [[nodiscard]] bool by_shares() const noexcept { return by_shares_; }
  /// Elements of a node's share.
  [[nodiscard]] std::int64_t share(Block piece) const noexcept {
    return (piece.count - 1) / nodes_ + 1;
  }

  /// Touches this rank's own memory only.
  void bring(Depot& depot, const Operation& operation, std::int64_t k) const;
  void collect(Depot& depot, const Operation& operation, std::int64_t k) const;
  /// The leader, once its node's share has arrived from everywhere.
  void sum_share(Depot& depot, const Operation& operation, std::int64_t k) const;
  void take(Depot& depot, const Operation& operation, std::int64_t k) const;

 private:
  std::int64_t total_ = 0;
  std::int64_t most_ = 1;  // elements of a piece
  int nodes_;
  bool by_shares_ = false;
};

}  // namespace lockstep
