#pragma once
#include <cstring>
#include <span>

#include <lockstep/comm/node/node.hpp>

// Shared by the ways of moving bytes within a node.

namespace lockstep {

inline void copy_bytes(void* target, const void* source, std::int64_t bytes) {
  if (bytes > 0 && target != source) std::memcpy(target, source, static_cast<std::size_t>(bytes));
}

/// Bytes per element of the reduced or moved data.
[[nodiscard]] inline std::int64_t element_bytes(const Operation& operation) {
  const Tensor& t = operation.input.defined() ? operation.input : operation.output;
  return static_cast<std::int64_t>(size_of(t.dtype()));
}

/// The operation as one of the node's ranks has posted it.
[[nodiscard]] inline const SlotTable::Slot& slot_of(const ComputeNode& node,
                                                    const Operation& operation, int node_rank) {
  return node.slot_table().slot(node_rank, operation.sequence);
}

/// True if the tensor that each of the node's ranks has posted as its `place` (Slot::input,
/// Slot::output) is in a shared buffer.
[[nodiscard]] inline bool all_in_buffers(const ComputeNode& node, const Operation& operation,
                                         const SharedPlace SlotTable::Slot::*place) {
  for (int r = 0; r < node.size(); ++r) {
    if ((slot_of(node, operation, r).*place).buffer < 0) return false;
  }
  return true;
}

/// address_on(r) of every rank r of the node, until the next call.
template <class F>
[[nodiscard]] std::span<const void* const> on_every_rank(ComputeNode& node, const F& address_on) {
  const auto addresses = node.sources();
  for (int r = 0; r < node.size(); ++r) addresses[static_cast<std::size_t>(r)] = address_on(r);
  return addresses;
}

}  // namespace lockstep
