#pragma once
#include <span>
#include <vector>

#include <lockstep/comm/node/memory.hpp>
#include <lockstep/comm/node/node_map.hpp>

namespace lockstep {

/// The memory of a node through which collectives over several nodes pass piece by piece: for what
/// each rank brings an area of its own; for what leaves the node, and for what comes from the
/// others, two areas of its leader's. All of them twice, in slots that pieces use in turn.
class Depot {
 public:
  static constexpr int slots = 2;
  /// On idle cores sizes from 64 KiB to 1 MiB are alike; on busy ones every piece that ranks wait
  /// for costs them their turn.
  static constexpr std::int64_t area_bytes = 256 << 10;
  /// Of the segment, for every rank, behind its board.
  [[nodiscard]] static constexpr std::size_t bytes() noexcept { return slots * 3 * area_bytes; }

  Depot(ComputeNode& node, NodeMap map)
      : node_(node),
        map_(std::move(map)),
        own_node_(map_.node_of(node.group_rank(0))),
        sources_(static_cast<std::size_t>(map_.nodes())) {}

  [[nodiscard]] ComputeNode& node() const noexcept { return node_; }
  [[nodiscard]] const NodeMap& map() const noexcept { return map_; }
  [[nodiscard]] int own_node() const noexcept { return own_node_; }

  [[nodiscard]] std::byte* brought(int node_rank, int slot) const noexcept {
    return area(node_rank, slot);
  }
  [[nodiscard]] std::byte* leaving(int slot) const noexcept { return area(0, slots + 2 * slot); }
  /// Right behind leaving(): what needs no room to leave from may use both.
  [[nodiscard]] std::byte* arriving(int slot) const noexcept { return leaving(slot) + area_bytes; }

  /// address_on(n) of every node n, until the next call.
  template <class F>
  [[nodiscard]] std::span<const void* const> on_every_node(const F& address_on) {
    for (int n = 0; n < map_.nodes(); ++n) sources_[static_cast<std::size_t>(n)] = address_on(n);
    return sources_;
  }

 private:
  [[nodiscard]] std::byte* area(int node_rank, int index) const noexcept {
    return node_.address(node_.relay(), node_rank) + index * area_bytes;
  }

  ComputeNode& node_;
  NodeMap map_;
  int own_node_;
  std::vector<const void*> sources_;
};

}  // namespace lockstep
