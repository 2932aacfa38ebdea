#include <lockstep/comm/node/rendezvous.hpp>

#include <lockstep/comm/node/eager.hpp>

namespace lockstep {

bool NodeRendezvous::post(ComputeNode& node, const Operation& operation, Contract contract) {
  if (posted_) return true;
  Board& board = node.board();
  if (!board.may_post(operation.sequence)) return false;
  Board::Slot& mine = board.mine(operation.sequence);
  mine.fingerprint = fingerprint(operation, contract == Contract::full);
  mine.call = record_of(operation);
  mine.input = operation.input.defined() ? node.place_of(operation.input) : SharedPlace{};
  mine.output = operation.output.defined() ? node.place_of(operation.output) : SharedPlace{};
  mine.operation = &operation;
  if (is_eager(operation)) post_eager(operation, mine);
  board.post(operation.sequence);
  return posted_ = true;
}

CallMatch NodeRendezvous::compare(const ComputeNode& node, const Operation& operation,
                                  Contract contract) {
  const Board& board = node.board();
  const std::uint64_t mine = board.mine(operation.sequence).fingerprint;
  for (; peer_ < node.size(); ++peer_) {
    if (!board.has_posted(peer_, operation.sequence)) return CallMatch::pending;
    const Board::Slot& theirs = board.slot(peer_, operation.sequence);
    if (contract != Contract::off && mismatched_ < 0 && theirs.fingerprint != mine)
      mismatched_ = peer_;
  }
  return mismatched_ < 0 ? CallMatch::equal : CallMatch::different;
}

std::string NodeRendezvous::mismatch(const ComputeNode& node, const Operation& operation) const {
  return called_something_else(node.group_rank(mismatched_), record_of(operation),
                               node.board().slot(mismatched_, operation.sequence).call);
}

}  // namespace lockstep
