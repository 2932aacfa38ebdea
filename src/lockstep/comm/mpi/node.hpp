#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/comm/mpi/leader_exchange.hpp>
#include <lockstep/comm/node/node.hpp>

namespace lockstep {

/// The ranks of a group on this rank's machine, found over MPI, and the leaders of all machines.
/// Where the memory that a machine's ranks should share is not to be
/// had, every rank is a node of its own, and everything goes through MPI.
class MpiNode {
 public:
  /// Collective over `group`; all of its ranks must be known to call it. `pretended` separates
  /// ranks of one machine that give different numbers.
  MpiNode(MpiRanks group, bool shared_memory, int pretended, const MpiWait& wait);

  [[nodiscard]] ComputeNode& operator*() const noexcept { return *node_; }
  [[nodiscard]] ComputeNode* operator->() const noexcept { return node_.get(); }
  /// The first ranks of all nodes, in rank order; empty with one node only.
  [[nodiscard]] const MpiRanks& leaders() const noexcept { return leaders_; }

  /// The buffers of collectives' pieces on their way to other nodes; nullptr, on all ranks of the
  /// group, unless it has several nodes, one of them with several ranks, and room on each of these.
  [[nodiscard]] StagingBuffers* staging() noexcept { return staging_ ? &*staging_ : nullptr; }
  [[nodiscard]] const StagingBuffers* staging() const noexcept {
    return staging_ ? &*staging_ : nullptr;
  }
  /// The leaders' exchange for piece k of the operation that has the staging buffers.
  [[nodiscard]] LeaderExchange& exchange(std::int64_t k) noexcept {
    return exchanges_[static_cast<std::size_t>(k % StagingBuffers::slots)];
  }

  /// The reason why the ranks of this machine do not share memory although they should; empty
  /// elsewhere, and on all of them but the first.
  [[nodiscard]] const std::string& shortage() const noexcept { return shortage_; }

  /// Memory that every rank of the node can reach, `bytes` for each. Nothing, on every rank of the
  /// group, if one of them cannot have it; `why` then says so on the first rank of a node that has
  /// no room. Collective over the group, with equal `bytes`.
  [[nodiscard]] std::shared_ptr<Segment> allocate(std::size_t bytes, const MpiWait& wait,
                                                  std::string& why);
  /// This rank's part of it, as a buffer that calls of the group find, as long as the group and the
  /// storage live. Not to be called while such a call is started or makes progress. Local.
  [[nodiscard]] IntrusivePtr<Storage> adopt(const std::shared_ptr<Segment>& segment,
                                            std::size_t bytes);

 private:
  /// The memory that this machine's ranks will share, and whether it has room after the slot table;
  /// nullptr if they cannot share.
  std::shared_ptr<Segment> share(std::size_t room, const MpiWait& wait, bool& has_room);
  void meet_other_nodes(bool has_room, const MpiWait& wait);

  MpiRanks group_, here_, leaders_;
  std::unique_ptr<ComputeNode> node_;
  std::optional<StagingBuffers> staging_;
  std::array<LeaderExchange, StagingBuffers::slots> exchanges_;
  std::string shortage_;
};

}  // namespace lockstep
