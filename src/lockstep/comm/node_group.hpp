#pragma once
#include <memory>
#include <string>
#include <vector>

#include <mpi.h>
#include <lockstep/comm/board.hpp>
#include <lockstep/comm/mpi_wait.hpp>

namespace lockstep {

/// A communicator of some of `comm`'s ranks, whose errors return. Collective over these; blocks.
[[nodiscard]] MPI_Comm communicator_of(const std::vector<int>& members, MPI_Comm comm);

/// The ranks of a group that sit on this rank's machine, and the memory they have in common: a
/// board, and the buffers that tensors were placed in. Where that memory is not to be had, every
/// rank is a node of its own, and everything goes through MPI.
class NodeGroup {
 public:
  /// Collective over `comm`, all of whose ranks are on their way here. It outlives this, and nobody
  /// else calls collectives on it: those here must not get between.
  NodeGroup(MPI_Comm comm, bool shared_memory, const MpiWait& wait);

  [[nodiscard]] Board& board() noexcept { return *board_; }
  [[nodiscard]] const Board& board() const noexcept { return *board_; }
  [[nodiscard]] int rank() const noexcept { return board_->rank(); }  ///< among those of the node
  [[nodiscard]] int size() const noexcept { return board_->size(); }
  [[nodiscard]] bool is_whole_group() const noexcept { return whole_group_; }
  /// Over the first ranks of all nodes; MPI_COMM_NULL on the others.
  [[nodiscard]] MPI_Comm leaders() const noexcept { return leaders_; }
  [[nodiscard]] bool is_leader() const noexcept { return rank() == 0; }
  /// The rank in the group of one of the node's ranks.
  [[nodiscard]] int group_rank(int node_rank) const noexcept {
    return group_ranks_[static_cast<std::size_t>(node_rank)];
  }
  /// Why the ranks of this machine share nothing though they should; empty elsewhere, and on all of
  /// them but the first.
  [[nodiscard]] const std::string& shortage() const noexcept { return shortage_; }

  /// Memory that every rank of the node can reach; this rank's part of it, as long as the group and
  /// the storage live. Ordinary memory on every rank of the group if one of them cannot have it;
  /// `why` then says so on the first rank of a node that has no room. Collective over the group,
  /// with equal `bytes`.
  [[nodiscard]] IntrusivePtr<Storage> allocate(std::size_t bytes, const MpiWait& wait,
                                               std::string& why);
  /// A buffer for tensors that are only passing through, where there was room for it.
  static constexpr std::int64_t relay_bytes = 512 << 10;  // half of a core's second-level cache
  [[nodiscard]] bool has_relay() const noexcept { return has_relay_; }
  [[nodiscard]] SharedPlace relay() const noexcept { return {0, Board::bytes()}; }

  /// Where a tensor lies, for the others.
  [[nodiscard]] SharedPlace place_of(const Tensor& t) const noexcept;
  [[nodiscard]] std::byte* address(const SharedPlace& place, int node_rank) const noexcept {
    return buffers_[static_cast<std::size_t>(place.buffer)]->part(node_rank) + place.offset;
  }

  /// MPI_Finalize or close(): frees the communicators. Returns MPI's status.
  int free() noexcept;

 private:
  /// What the ranks on this node will share; nullptr where they cannot.
  std::shared_ptr<SharedSegment> share(const std::vector<int>& ranks, const MpiWait& wait);

  MPI_Comm group_;
  MPI_Comm node_ = MPI_COMM_NULL;  // group_ where that is all of it
  MPI_Comm leaders_ = MPI_COMM_NULL;
  std::vector<int> group_ranks_;
  std::unique_ptr<Board> board_;
  std::vector<std::shared_ptr<SharedSegment>> buffers_;  // the first: the board's and the relay's
  bool has_relay_ = false;
  bool whole_group_ = true;
  std::string shortage_;
};

}  // namespace lockstep
