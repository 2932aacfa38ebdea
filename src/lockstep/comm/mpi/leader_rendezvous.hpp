#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/comm/mpi/max_all_reduce.hpp>
#include <lockstep/comm/mpi/node.hpp>

namespace lockstep {

/// The rendezvous of the nodes of a group at one collective: their leaders compare fingerprints by
/// message, and each publishes the outcome on its node's table.
class LeaderRendezvous {
 public:
  [[nodiscard]] bool has_started() const noexcept { return started_; }
  // These throw OperationFailure if MPI fails.
  /// All ranks of this node have posted: `alike`, the same call.
  void start(MpiNode& node, const Operation& operation, bool alike);
  /// Whether all ranks of the group have made the same call; nothing while some have not reported.
  [[nodiscard]] std::optional<bool> compare(MpiNode& node, const Operation& operation);

  /// After a mismatch, the call of a rank of another node. `mismatched`: the first rank of this
  /// node whose call differs, or -1. Collective over the group.
  [[nodiscard]] static std::string mismatch(MpiNode& node, const Operation& operation,
                                            int mismatched, const MpiWait& wait);

 private:
  static void tell(MpiNode& node, const Operation& operation, int mismatched, const MpiWait& wait);

  bool started_ = false;
  MaxAllReduce max_;  // of all nodes' fingerprints, and of their complements
};

}  // namespace lockstep
