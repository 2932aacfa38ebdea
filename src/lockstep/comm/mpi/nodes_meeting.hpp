#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/comm/mpi/largest_of_all.hpp>
#include <lockstep/comm/mpi/node.hpp>

namespace lockstep {

/// How the nodes of a group learn of each other's call of one collective: their leaders compare
/// fingerprints by message, and each tells its node.
class NodesMeeting {
 public:
  [[nodiscard]] bool has_started() const noexcept { return started_; }
  /// All ranks of this node have posted: `alike`, the same call. Returns MPI's status.
  [[nodiscard]] int start(MpiNode& node, const Operation& operation, bool alike);

  /// Whether all ranks of the group have made the same call; nothing while not all nodes have come.
  /// `status` is MPI's.
  [[nodiscard]] std::optional<bool> look(MpiNode& node, const Operation& operation, int& status);

  /// After a refusal, what a rank of another node has called. `disputed`: the first rank of this
  /// node whose call differs, or -1. Collective over the group.
  [[nodiscard]] static std::string dispute(MpiNode& node, const Operation& operation, int disputed,
                                           const MpiWait& wait);

 private:
  static void tell(MpiNode& node, const Operation& operation, int disputed, const MpiWait& wait);

  bool started_ = false;
  LargestOfAll largest_;  // of all nodes' fingerprints, and of their complements
};

}  // namespace lockstep
