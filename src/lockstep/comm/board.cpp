#include <lockstep/comm/board.hpp>

#include <unistd.h>

#include <new>

namespace lockstep {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // so it works between processes

Board::Board(std::shared_ptr<SharedSegment> segment, int ranks, int rank)
    : segment_(std::move(segment)), ranks_(ranks), rank_(rank) {
  Part* mine = ::new (segment_->part(rank)) Part();
  mine->pid = static_cast<std::int32_t>(getpid());
}

bool Board::may_post(std::uint64_t sequence) const noexcept {
  if (sequence <= slots) return true;
  for (int r = 0; r < ranks_; ++r) {
    if (part(r).retired.load(std::memory_order_acquire) + slots < sequence) return false;
  }
  return true;
}

const CallRecord* Board::last_call(int rank) const noexcept {
  const auto newest = part(rank).newest.load(std::memory_order_acquire);
  return newest == 0 ? nullptr : &slot(rank, newest).call;
}

}  // namespace lockstep
