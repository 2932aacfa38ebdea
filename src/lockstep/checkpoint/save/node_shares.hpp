#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/checkpoint/save/plan.hpp>
#include <lockstep/comm/node_layout.hpp>

namespace lockstep {

/// Which ranks bring a slab into a node's copy.
struct SlabRoute {
  int from = -1;    ///< holds the slab
  int writer = -1;  ///< on the node; -1: the slab is not in its copy
};

/// Which slabs of a save each node keeps: those that its ranks hold, and those that the node before
/// it holds, whose partner it is, as in SCR's scheme PARTNER (Moody et al. 2010,
/// doi:10.1109/SC.2010.18). So one lost node of two neighbours loses nothing. Pure functions, the
/// same on every rank.
class NodeShares {
 public:
  explicit NodeShares(NodeLayout nodes) : nodes_(std::move(nodes)) {}

  [[nodiscard]] const NodeLayout& nodes() const noexcept { return nodes_; }
  [[nodiscard]] int partner_of(int node) const { return (node + 1) % size(); }

  /// How the slab, the `number`-th of the save, gets into the copy of `node`. Ranks that could read
  /// or write it take turns.
  [[nodiscard]] SlabRoute route(const PlannedDataset& planned, const Slab& slab, std::size_t number,
                                int node) const;
  /// Bytes of the slabs in the copy of `node`.
  [[nodiscard]] std::int64_t bytes(const std::vector<PlannedDataset>& plan, int node) const;

 private:
  [[nodiscard]] int size() const { return static_cast<int>(nodes_.hosts().size()); }
  [[nodiscard]] int holder_on(const PlannedDataset& planned, const Slab& slab, std::size_t number,
                              int node) const;

  NodeLayout nodes_;
};

}  // namespace lockstep
