#pragma once
#include <lockstep/comm/node/staging_buffers.hpp>

namespace lockstep {

/// The plan of a hierarchical collective: its division into pieces, the same on every rank, and a
/// rank's work for each piece through its node's staging buffers. It stages its input; when all
/// ranks of its node have, it combines its share of the data that leaves the node; after the nodes'
/// leaders have exchanged that, it copies its result out. Reductions go in rank order within a
/// node, then in the nodes' order: same bits on every rank and in every run. Sums of 16-bit floats
/// within a node are rounded before they leave it.
class HierarchicalPlan {
 public:
  /// False for other collectives, and for any with counts. The same on every rank of the group.
  [[nodiscard]] static bool fits(const NodeMap& map, const Operation& operation) noexcept;

  /// `staging` and `operation` must outlive it. `max_count`: GroupOptions.
  HierarchicalPlan(StagingBuffers& staging, const Operation& operation,
                   std::int64_t max_count) noexcept;

  [[nodiscard]] StagingBuffers& staging() const noexcept { return staging_; }
  [[nodiscard]] const Operation& operation() const noexcept { return operation_; }
  [[nodiscard]] std::int64_t pieces() const noexcept {
    return total_ == 0 ? 0 : (total_ - 1) / most_ + 1;
  }
  /// Elements of each rank's block; of reductions to every rank or one, and broadcasts, of the
  /// tensor.
  [[nodiscard]] Block piece(std::int64_t k) const noexcept {
    return {k * most_, std::min(most_, total_ - k * most_)};
  }
  /// Whether the piece is cut into shares, one a node: of a reduction, which that node sums for
  /// all; of a broadcast, which it sends on. Otherwise every node gets the input of all others, and
  /// its ranks sum it up, or copy the root's.
  [[nodiscard]] bool by_shares() const noexcept { return by_shares_; }
  /// Elements of a node's share.
  [[nodiscard]] std::int64_t share(Block piece) const noexcept {
    return (piece.count - 1) / staging_.map().nodes() + 1;
  }

  /// Touches this rank's own memory only.
  void stage_input(std::int64_t k) const;
  void combine(std::int64_t k) const;
  /// On the leader, once its node's share has arrived from every node.
  void sum_share(std::int64_t k) const;
  void copy_result_out(std::int64_t k) const;

 private:
  template <class F>
  void reduce_node(std::int64_t count, std::byte* target, const F& first_on) const;
  void reduce_nodes(const std::byte* first, std::int64_t stride, std::int64_t count,
                    void* target) const;

  StagingBuffers& staging_;
  const Operation& operation_;
  std::int64_t element_;  // bytes
  std::int64_t total_;
  std::int64_t most_;  // elements of a piece
  bool by_shares_ = false;
};

}  // namespace lockstep
