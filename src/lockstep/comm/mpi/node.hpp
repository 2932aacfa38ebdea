#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mpi.h>
#include <lockstep/comm/mpi/leaders_exchange.hpp>
#include <lockstep/comm/mpi/wait.hpp>
#include <lockstep/comm/node/node.hpp>

namespace lockstep {

/// A communicator of all of `comm`'s ranks, whose errors return. Collective over them; ends at the
/// deadline of `wait`.
[[nodiscard]] MPI_Comm duplicate_of(MPI_Comm comm, const MpiWait& wait);

/// A communicator of some of `comm`'s ranks, whose errors return. Collective over these; blocks.
[[nodiscard]] MPI_Comm communicator_of(const std::vector<int>& members, MPI_Comm comm);

/// The ranks of a group that sit on this rank's machine, found over MPI, and the communicators
/// within and between machines. Where the memory that a machine's ranks should share is not to be
/// had, every rank is a node of its own, and everything goes through MPI.
class MpiNode {
 public:
  /// Collective over `comm`, all of whose ranks are on their way here. It outlives this, and nobody
  /// else calls collectives on it: those here must not get between. `pretended` keeps ranks of one
  /// machine apart that give different numbers.
  MpiNode(MPI_Comm comm, bool shared_memory, int pretended, const MpiWait& wait);

  [[nodiscard]] Node& operator*() const noexcept { return *node_; }
  [[nodiscard]] Node* operator->() const noexcept { return node_.get(); }
  /// Over the first ranks of all nodes, in rank order; MPI_COMM_NULL on the others, and where there
  /// is one node only.
  [[nodiscard]] MPI_Comm leaders() const noexcept { return leaders_; }

  /// Where pieces of collectives pass on their way to other nodes; nullptr, on all ranks of the
  /// group, unless it has several nodes, one of them with several ranks, and room on each of these.
  [[nodiscard]] Depot* depot() noexcept { return depot_ ? &*depot_ : nullptr; }
  [[nodiscard]] const Depot* depot() const noexcept { return depot_ ? &*depot_ : nullptr; }
  /// As leaders(), for pieces alone, where there is a depot.
  [[nodiscard]] MPI_Comm leaders_of_pieces() const noexcept { return leaders_of_pieces_; }
  /// What the leaders exchange for piece k of the operation that has the depot.
  [[nodiscard]] LeadersExchange& exchange(std::int64_t k) noexcept {
    return exchanges_[static_cast<std::size_t>(k % Depot::slots)];
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
  /// MPI_Finalize or close(): frees the communicators. Returns MPI's status.
  int free() noexcept;

 private:
  /// What `ranks`, those of this machine, will share, and whether it has the room behind the board;
  /// nullptr where they cannot.
  std::shared_ptr<Segment> share(const std::vector<int>& ranks, std::size_t room,
                                 const MpiWait& wait, bool& has_room);
  void meet_other_nodes(bool has_room, const MpiWait& wait);

  MPI_Comm group_;
  MPI_Comm node_comm_ = MPI_COMM_NULL;  // group_ where that is all of it
  MPI_Comm leaders_ = MPI_COMM_NULL;
  MPI_Comm leaders_of_pieces_ = MPI_COMM_NULL;
  std::unique_ptr<Node> node_;
  std::optional<Depot> depot_;
  std::array<LeadersExchange, Depot::slots> exchanges_;
  std::string shortage_;
};

}  // namespace lockstep
