#pragma once
#include <span>
#include <vector>

#include <lockstep/comm/node/memory.hpp>
#include <lockstep/comm/node/node_map.hpp>

namespace lockstep {

/// A node's shared memory for hierarchical collectives, which pass it piece by piece: an input area
/// for each rank; two areas of the leader, for the bytes that leave the node and for those from
/// other nodes. All of them twice, in slots that pieces use in turn.
class StagingBuffers {
 public:
  static constexpr int slots = 2;
  /// On idle cores sizes from 64 KiB to 1 MiB are alike; on busy ones every piece that ranks wait
  /// for costs them their turn.
  static constexpr std::int64_t area_bytes = 256 << 10;
  /// Its size in the segment, per rank, after the slot table.
  [[nodiscard]] static constexpr std::size_t bytes() noexcept { return slots * 3 * area_bytes; }

  StagingBuffers(ComputeNode& node, NodeMap map)
      : node_(node),
        map_(std::move(map)),
        own_node_(map_.node_of(node.group_rank(0))),
        sources_(static_cast<std::size_t>(map_.nodes())) {}

  [[nodiscard]] ComputeNode& node() const noexcept { return node_; }
  [[nodiscard]] const NodeMap& map() const noexcept { return map_; }
  [[nodiscard]] int own_node() const noexcept { return own_node_; }

  [[nodiscard]] std::byte* input(int node_rank, int slot) const noexcept {
    return area(node_rank, slot);
  }
  [[nodiscard]] std::byte* outgoing(int slot) const noexcept { return area(0, slots + 2 * slot); }
  /// Directly after outgoing(): data that leaves from another place may use both.
  [[nodiscard]] std::byte* incoming(int slot) const noexcept { return outgoing(slot) + area_bytes; }

  /// address_on(n) of every node n, until the next call.
  template <class F>
  [[nodiscard]] std::span<const void* const> on_every_node(const F& address_on) {
    for (int n = 0; n < map_.nodes(); ++n) sources_[static_cast<std::size_t>(n)] = address_on(n);
    return sources_;
  }

 private:
  [[nodiscard]] std::byte* area(int node_rank, int index) const noexcept {
    return node_.address(node_.staging(), node_rank) + index * area_bytes;
  }

  ComputeNode& node_;
  NodeMap map_;
  int own_node_;
  std::vector<const void*> sources_;
};

}  // namespace lockstep
