#pragma once
#include <lockstep/comm/node/node.hpp>

namespace lockstep {

/// Collectives of small tensors travel in the slots of the board: each rank reads what the others
/// posted. Reductions go in rank order: same bits on every rank and in every run.

/// True if the operation's tensors are small enough, on every rank.
[[nodiscard]] bool goes_in_slots(const Operation& operation) noexcept;
/// Puts what this rank brings into its slot, before it is posted.
void bring_in_slot(const Operation& operation, Board::Slot& mine);
/// Carries it out: reads the others' slots, which stay as they are until this rank retires it.
void perform_in_slots(ComputeNode& node, const Operation& operation);

}  // namespace lockstep
