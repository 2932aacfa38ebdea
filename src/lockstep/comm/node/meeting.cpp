#include <lockstep/comm/node/meeting.hpp>

#include <lockstep/comm/node/in_slots.hpp>

namespace lockstep {

bool Meeting::post(ComputeNode& node, const Operation& operation, Contract contract) {
  Board& board = node.board();
  if (!board.may_post(operation.sequence)) return false;
  Board::Slot& mine = board.mine(operation.sequence);
  mine.fingerprint = fingerprint(operation, contract == Contract::full);
  mine.call = record_of(operation);
  mine.input = operation.input.defined() ? node.place_of(operation.input) : SharedPlace{};
  mine.output = operation.output.defined() ? node.place_of(operation.output) : SharedPlace{};
  mine.operation = &operation;
  if (goes_in_slots(operation)) bring_in_slot(operation, mine);
  board.post(operation.sequence);
  return true;
}

Agreement Meeting::look(const ComputeNode& node, const Operation& operation, Contract contract) {
  const Board& board = node.board();
  const std::uint64_t mine = board.mine(operation.sequence).fingerprint;
  for (; peer_ < node.size(); ++peer_) {
    if (!board.has_posted(peer_, operation.sequence)) return Agreement::pending;
    const Board::Slot& theirs = board.slot(peer_, operation.sequence);
    if (contract != Contract::off && disputed_ < 0 && theirs.fingerprint != mine) disputed_ = peer_;
  }
  return disputed_ < 0 ? Agreement::reached : Agreement::refused;
}

std::string Meeting::dispute(const ComputeNode& node, const Operation& operation) const {
  return called_something_else(node.group_rank(disputed_), record_of(operation),
                               node.board().slot(disputed_, operation.sequence).call);
}

}  // namespace lockstep
