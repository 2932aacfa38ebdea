#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/spin_lock.hpp>
#include <lockstep/rpc/function.hpp>
#include <lockstep/rpc/future.hpp>

namespace lockstep::rpc {

/// A rank's unanswered calls by number; a late answer's number matches none. Slots are used again,
/// so that memory stays flat. The thread that takes an entry with a state completes it, and then
/// calls over(). Thread-safe.
class CallTable {
 public:
  struct Entry {
    IntrusivePtr<FutureState> state;
    const char* name = "";
    int to = -1;
    Clock::time_point start, deadline;
  };

  [[nodiscard]] std::uint64_t add(Entry&& entry) {
    const std::lock_guard lock(lock_);
    std::uint32_t at = first_free_;
    if (at == none) {
      at = static_cast<std::uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      first_free_ = slots_[at].next_free;
    }
    Slot& slot = slots_[at];
    slot.used = true;
    slot.entry = std::move(entry);
    if (slot.entry.deadline < earliest_) earliest_ = slot.entry.deadline;
    open_.fetch_add(1);
    return std::uint64_t{slot.generation} << 32U | at;
  }

  /// Takes a call out of the table; returns an entry without state if it is no longer there.
  [[nodiscard]] Entry take(std::uint64_t id) {
    const std::lock_guard lock(lock_);
    const auto at = static_cast<std::uint32_t>(id);
    if (at >= slots_.size() || !slots_[at].used || slots_[at].generation != id >> 32U) return {};
    return take_slot(at);
  }

  /// All calls overdue at `now`; the caller must complete them. Searches the table only if one of
  /// the calls may be overdue.
  [[nodiscard]] std::vector<Entry> take_overdue(Clock::time_point now) {
    std::vector<Entry> overdue;
    const std::lock_guard lock(lock_);
    if (now < earliest_) return overdue;
    earliest_ = Clock::time_point::max();
    for (std::uint32_t at = 0; at < slots_.size(); ++at) {
      if (!slots_[at].used) continue;
      if (slots_[at].entry.deadline > now) {
        earliest_ = std::min(earliest_, slots_[at].entry.deadline);
        continue;
      }
      slots_[at].entry.state->set_coming();
      overdue.push_back(take_slot(at));
    }
    return overdue;
  }

  /// A call that was taken is complete, its continuations have run.
  void over() noexcept { open_.fetch_sub(1); }
  /// Calls that are in the table, or not over.
  [[nodiscard]] std::size_t open() const noexcept { return open_.load(); }

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  struct Slot {
    Entry entry;
    std::uint32_t generation = 1;
    std::uint32_t next_free = none;
    bool used = false;
  };

  Entry take_slot(std::uint32_t at) {
    Slot& slot = slots_[at];
    slot.used = false;
    ++slot.generation;
    slot.next_free = std::exchange(first_free_, at);
    return std::exchange(slot.entry, Entry{});
  }

  SpinLock lock_;
  std::vector<Slot> slots_;
  std::uint32_t first_free_ = none;
  Clock::time_point earliest_ = Clock::time_point::max();  // no deadline is before it
  std::atomic<std::size_t> open_ = 0;
};

}  // namespace lockstep::rpc
