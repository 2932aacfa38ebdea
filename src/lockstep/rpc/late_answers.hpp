#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <lockstep/base/clock.hpp>

namespace lockstep::rpc {

/// Calls of other ranks that are answered after their function returns: it returned a Future, or
/// they ask for an object that is being made. Each ends once: with its answer, or at its caller's
/// deadline, since the caller no longer waits then. Thread-safe.
template <class Call>
class LateAnswers {
 public:
  /// Returns its number.
  [[nodiscard]] std::uint64_t add(const Call& call, Clock::time_point deadline) {
    const std::lock_guard lock(mutex_);
    calls_.emplace(++last_, Entry{call, deadline});
    count_.store(calls_.size());
    if (deadline < earliest_) earliest_ = deadline;
    return last_;
  }
  /// True if there are any. Without a lock.
  [[nodiscard]] bool some() const noexcept { return count_.load(std::memory_order_relaxed) > 0; }
  /// Whether it is the caller's to answer: it is not over, and is from now on.
  [[nodiscard]] bool take(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const bool found = calls_.erase(number) > 0;
    count_.store(calls_.size());
    return found;
  }
  /// Removes all calls whose deadline has passed.
  [[nodiscard]] std::vector<Call> take_overdue(Clock::time_point now) {
    std::vector<Call> overdue;
    const std::lock_guard lock(mutex_);
    if (now < earliest_) return overdue;
    earliest_ = Clock::time_point::max();
    for (auto it = calls_.begin(); it != calls_.end();) {
      if (it->second.deadline <= now) {
        overdue.push_back(it->second.call);
        it = calls_.erase(it);
      } else {
        if (it->second.deadline < earliest_) earliest_ = it->second.deadline;
        ++it;
      }
    }
    count_.store(calls_.size());
    return overdue;
  }

 private:
  struct Entry {
    Call call;
    Clock::time_point deadline;
  };
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Entry> calls_;
  std::atomic<std::size_t> count_ = 0;
  std::uint64_t last_ = 0;
  Clock::time_point earliest_ = Clock::time_point::max();
};

}  // namespace lockstep::rpc
