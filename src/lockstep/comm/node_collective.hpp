#pragma once
#include <cstdint>

#include <lockstep/comm/node_group.hpp>

namespace lockstep {

/// Collectives of ranks of one node, without messages. Every rank has posted its call
/// (write_call), and all fit together, so that every rank takes the same way:
///   in the slots    up to Board::payload_bytes: each rank reads what the others posted;
///   in place        tensors that lie in shared buffers: each rank reads the others' and, for
///                   all_reduce, writes its share of the result into all of them;
///   by relay        an all_reduce of any tensors: the same, piece by piece through a small shared
///                   buffer, which stays in cache.
/// Reductions go in rank order: same bits on every rank and in every run.

/// Fills this rank's slot with the call; Board::post shows it.
void write_call(NodeGroup& node, const Operation& operation, Contract contract);

/// True if the operation's tensors are small enough for the slots, on every rank.
[[nodiscard]] bool goes_in_slots(const Operation& operation) noexcept;
/// Carries it out: reads the others' slots, which stay as they are until this rank retires it.
void perform_in_slots(const NodeGroup& node, const Operation& operation);

/// True if every tensor that others must reach lies in a shared buffer.
[[nodiscard]] bool goes_in_place(const NodeGroup& node, const Operation& operation) noexcept;
/// Does some of this rank's part, from element `cursor` on; returns where to go on, or -1 when its
/// part is done. The others may still be at theirs.
[[nodiscard]] std::int64_t perform_in_place(const NodeGroup& node, const Operation& operation,
                                            std::int64_t cursor);

/// All-reduces of one node that do not go in place, go by relay.
[[nodiscard]] bool goes_by_relay(const NodeGroup& node, const Operation& operation) noexcept;
/// The elements of one piece, from `begin` on.
[[nodiscard]] Block relay_piece(const Operation& operation, std::int64_t begin) noexcept;
/// The three steps of a piece; all ranks must have taken one before any takes the next.
void copy_to_relay(const NodeGroup& node, const Operation& operation, Block piece);
void reduce_in_relay(const NodeGroup& node, const Operation& operation, Block piece);
void copy_from_relay(const NodeGroup& node, const Operation& operation, Block piece);

/// all_reduce of a group on several nodes: this node's sum, in the first rank's output; messages
/// between the nodes do the rest. Cursor as above.
[[nodiscard]] bool goes_over_nodes(const NodeGroup& node, const Operation& operation) noexcept;
[[nodiscard]] std::int64_t sum_on_leader(const NodeGroup& node, const Operation& operation,
                                         std::int64_t cursor);
/// The first rank's output is complete: takes it over.
void copy_from_leader(const NodeGroup& node, const Operation& operation);

}  // namespace lockstep
