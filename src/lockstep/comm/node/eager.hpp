#pragma once
#include <lockstep/comm/node/node.hpp>

namespace lockstep {

/// The eager path: small tensors travel with the rendezvous, in the slots of the slot table, where
/// each rank reads the others' data. Reductions go in rank order: same bits on every rank and in
/// every run.

/// True if the operation's tensors are small enough, on every rank.
[[nodiscard]] bool is_eager(const Operation& operation) noexcept;
/// Copies this rank's input into its slot, before that is posted.
void post_eager(const Operation& operation, SlotTable::Slot& mine);
/// Carries it out: reads the others' slots, which stay as they are until this rank retires it.
void complete_eager(ComputeNode& node, const Operation& operation);

}  // namespace lockstep
