#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep {

/// Wakes a rank that sleeps because it waits for others. It may lie in memory that several
/// processes share. Nothing is lost that happens between listen() and sleep():
///
///   heard = bell.listen(); if (nothing is there) bell.sleep(heard, for_so_long);
///
/// and, by who has something: make it visible, then ring().
class Doorbell {
 public:
  /// From now on ring() ends a sleep().
  [[nodiscard]] std::uint32_t listen() noexcept {
    const auto heard = rings_.load(std::memory_order_relaxed);
    listening_.exchange(1);  // before any look at what others have made visible
    return heard;
  }
  /// Returns when somebody has rung since listen(), which is true, or after `at_most`, or earlier.
  bool sleep(std::uint32_t heard, std::chrono::microseconds at_most) noexcept;

  /// Costs one atomic operation where nobody listens.
  void ring() noexcept {
    if (listening_.exchange(0) != 0) wake();  // after what was made visible
  }

 private:
  void wake() noexcept;

  alignas(64) std::atomic<std::uint32_t> rings_ = 0;
  std::atomic<std::uint32_t> listening_ = 0;
};

}  // namespace lockstep
