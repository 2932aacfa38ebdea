#include <lockstep/comm/node/rendezvous.hpp>

#include <lockstep/comm/node/eager.hpp>

namespace lockstep {

bool NodeRendezvous::post(ComputeNode& node, const Operation& operation, Contract contract) {
  if (posted_) return true;
  SlotTable& table = node.slot_table();
  if (!table.may_post(operation.sequence)) return false;
  SlotTable::Slot& mine = table.mine(operation.sequence);
  mine.fingerprint =
      contract == Contract::full ? fingerprint_of(operation, true) : operation.fingerprint;
  mine.call = record_of(operation);
  mine.input = operation.input.defined() ? node.place_of(operation.input) : SharedPlace{};
  mine.output = operation.output.defined() ? node.place_of(operation.output) : SharedPlace{};
  mine.operation = &operation;
  if (is_eager(operation)) post_eager(operation, mine);
  table.post(operation.sequence);
  return posted_ = true;
}

CallMatch NodeRendezvous::compare(const ComputeNode& node, const Operation& operation,
                                  Contract contract) {
  const SlotTable& table = node.slot_table();
  const std::uint64_t mine = table.mine(operation.sequence).fingerprint;
  for (; peer_ < node.size(); ++peer_) {
    if (!table.has_posted(peer_, operation.sequence)) return CallMatch::pending;
    const SlotTable::Slot& theirs = table.slot(peer_, operation.sequence);
    if (contract != Contract::off && mismatched_ < 0 && theirs.fingerprint != mine)
      mismatched_ = peer_;
  }
  return mismatched_ < 0 ? CallMatch::equal : CallMatch::different;
}

std::string NodeRendezvous::mismatch(const ComputeNode& node, const Operation& operation) const {
  return called_something_else(node.group_rank(mismatched_), record_of(operation),
                               node.slot_table().slot(mismatched_, operation.sequence).call);
}

}  // namespace lockstep
