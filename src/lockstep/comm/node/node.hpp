#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/comm/node/slot_table.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The ranks of a group that share memory with this one, and that memory: a slot table, and the
/// buffers that hold tensors. Ranks that are threads of one process share all memory.
class ComputeNode {
 public:
  /// How the memory of the node's ranks is shared.
  enum class Reach : std::uint8_t {
    buffers,  ///< shared buffers only
    process,  ///< all of it: they are threads of one process
  };

  /// `segment` holds SlotTable::bytes() a rank, and from there on, if has_staging, staging_bytes
  /// more; or, where this is one of several nodes, what StagingBuffers says. `group_ranks`: the
  /// node's ranks in the group.
  ComputeNode(std::shared_ptr<Segment> segment, std::vector<int> group_ranks, int node_rank,
              bool whole_group, bool has_staging, Reach reach = Reach::buffers);

  [[nodiscard]] SlotTable& slot_table() noexcept { return slot_table_; }
  [[nodiscard]] const SlotTable& slot_table() const noexcept { return slot_table_; }
  [[nodiscard]] int rank() const noexcept {
    return slot_table_.rank();
  }  ///< among those of the node
  [[nodiscard]] int size() const noexcept { return slot_table_.size(); }
  [[nodiscard]] bool is_whole_group() const noexcept { return whole_group_; }
  [[nodiscard]] bool is_leader() const noexcept { return rank() == 0; }
  [[nodiscard]] bool is_one_process() const noexcept { return reach_ == Reach::process; }
  /// The rank in the group of one of the node's ranks.
  [[nodiscard]] int group_rank(int node_rank) const noexcept {
    return group_ranks_[static_cast<std::size_t>(node_rank)];
  }

  /// Wakes a rank of the group, if it is one of the node's and sleeps.
  void notify(int group_rank) const noexcept;

  /// A buffer for staged data, if there was room for it.
  static constexpr std::int64_t staging_bytes = 512 << 10;  // half of a core's second-level cache
  [[nodiscard]] bool has_staging() const noexcept { return has_staging_; }
  [[nodiscard]] SharedPlace staging() const noexcept { return {0, SlotTable::bytes()}; }
  /// The operation whose pieces are in the staging buffers; nullptr: none.
  [[nodiscard]] const Operation*& staging_user() noexcept { return staging_user_; }

  /// An array with an address for each of the node's ranks, for the thread that drives the group.
  [[nodiscard]] std::span<const void*> sources() noexcept { return sources_; }
  [[nodiscard]] std::span<void*> targets() noexcept { return targets_; }

  /// From now on tensors may lie in `buffer`. In the same order on every rank of the node.
  void add_buffer(std::shared_ptr<Segment> buffer) { buffers_.push_back(std::move(buffer)); }
  /// A tensor's address, for the others.
  [[nodiscard]] SharedPlace place_of(const Tensor& t) const noexcept;
  [[nodiscard]] std::byte* address(const SharedPlace& place, int node_rank) const noexcept {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast,performance-no-int-to-ptr)
    if (is_one_process()) return reinterpret_cast<std::byte*>(place.offset);
    return buffers_[static_cast<std::size_t>(place.buffer)]->part(node_rank) + place.offset;
  }

 private:
  std::vector<int> group_ranks_;
  SlotTable slot_table_;
  bool whole_group_, has_staging_;
  Reach reach_;
  std::vector<std::shared_ptr<Segment>>
      buffers_;  // the first holds the slot table and the staging buffer
  const Operation* staging_user_ = nullptr;
  std::vector<const void*> sources_;
  std::vector<void*> targets_;
};

/// The ranks of the node that a collective waits for, and their state; empty if all have entered
/// it.
[[nodiscard]] std::string missing_ranks(const ComputeNode& node, const Operation& operation);

}  // namespace lockstep
