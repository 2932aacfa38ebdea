#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep {

/// An event count: a condition variable without a mutex. It may lie in memory that several
/// processes share. The waiting thread checks its condition between the two halves of the wait, so
/// that no notification is lost:
///
///   key = event.prepare_wait(); if (!condition) event.wait(key, at_most);
///
/// The other one makes the condition true, then calls notify().
class EventCount {
 public:
  /// From now on notify() ends a wait() for this key.
  [[nodiscard]] std::uint32_t prepare_wait() noexcept {
    const auto key = count_.load(std::memory_order_relaxed);
    waiting_.exchange(1);  // before any look at what others have made visible
    return key;
  }
  /// Returns true after a notify() since prepare_wait(); false after `at_most`, or earlier.
  bool wait(std::uint32_t key, std::chrono::microseconds at_most) noexcept;

  /// Wakes all waiting threads. Costs one atomic operation where nobody waits.
  void notify() noexcept {
    if (waiting_.exchange(0) != 0) wake();  // after what was made visible
  }

 private:
  void wake() noexcept;

  alignas(64) std::atomic<std::uint32_t> count_ = 0;
  std::atomic<std::uint32_t> waiting_ = 0;
};

}  // namespace lockstep
