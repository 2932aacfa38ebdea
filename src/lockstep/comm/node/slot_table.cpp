#include <lockstep/comm/node/slot_table.hpp>

#include <unistd.h>

#include <algorithm>
#include <new>

namespace lockstep {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // so it works between processes

SlotTable::SlotTable(std::shared_ptr<Segment> segment, int ranks, int rank)
    : segment_(std::move(segment)), ranks_(ranks), rank_(rank) {
  Part* mine = ::new (segment_->part(rank)) Part();
  mine->pid = static_cast<std::int32_t>(getpid());
}

// The check reads a cache line of every rank, so it runs once per round of the ring only; of the
// collectives that find the ring full, for the oldest only.
bool SlotTable::may_post(std::uint64_t sequence) noexcept {
  if (sequence <= retired_ + slots) return true;
  if (sequence > part(rank_).newest.load(std::memory_order_relaxed) + 1) return false;
  std::uint64_t least = sequence;
  for (int r = 0; r < ranks_; ++r) {
    least = std::min(least, part(r).retired.load(std::memory_order_acquire));
  }
  retired_ = least;
  return sequence <= retired_ + slots;
}

const CallRecord* SlotTable::last_call(int rank) const noexcept {
  const auto newest = part(rank).newest.load(std::memory_order_acquire);
  return newest == 0 ? nullptr : &slot(rank, newest).call;
}

}  // namespace lockstep
