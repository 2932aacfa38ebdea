#pragma once
#include <string>

#include <lockstep/comm/engine/in_flight.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/node/node.hpp>

namespace lockstep {

/// The rendezvous of the ranks of a node at one collective, by the slot table: each posts its call
/// and compares it with the others'.
class NodeRendezvous {
 public:
  /// Posts this rank's call, once, and its input if that is eager; false while the slot is still
  /// being read. The tensors of `operation` must stay until it completes.
  [[nodiscard]] bool post(ComputeNode& node, const Operation& operation, Contract contract);

  /// Whether all of the node's ranks have posted, the same call unless `contract` is off.
  [[nodiscard]] CallMatch compare(const ComputeNode& node, const Operation& operation,
                                  Contract contract);
  /// The first of the node's ranks whose call differs, or -1.
  [[nodiscard]] int mismatched_rank() const noexcept { return mismatched_; }
  /// "rank 1 called all_reduce(max) #3 of f32[8], another reduction".
  [[nodiscard]] std::string mismatch(const ComputeNode& node, const Operation& operation) const;

 private:
  bool posted_ = false;
  int peer_ = 0;  // the next rank of the node to be looked at
  int mismatched_ = -1;
};

}  // namespace lockstep
