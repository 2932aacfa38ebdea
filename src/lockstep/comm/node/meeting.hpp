#pragma once
#include <string>

#include <lockstep/comm/engine/in_flight.hpp>
#include <lockstep/comm/node/node.hpp>

namespace lockstep {

/// How the ranks of a node learn of each other's call of one collective: by the board.
class Meeting {
 public:
  /// Shows this rank's call, and what it brings if that is small enough for the slot; false while
  /// the slot is still read. The tensors of `operation` stay where they are until it is over.
  [[nodiscard]] static bool post(ComputeNode& node, const Operation& operation, Contract contract);

  /// Whether all of the node's ranks have posted, the same call unless `contract` is off.
  [[nodiscard]] Agreement look(const ComputeNode& node, const Operation& operation,
                               Contract contract);
  /// The first of the node's ranks whose call differs, or -1.
  [[nodiscard]] int disputed() const noexcept { return disputed_; }
  /// "rank 1 called all_reduce(max) #3 of f32[8], another reduction".
  [[nodiscard]] std::string dispute(const ComputeNode& node, const Operation& operation) const;

 private:
  int peer_ = 0;  // the next rank of the node to be looked at
  int disputed_ = -1;
};

}  // namespace lockstep
