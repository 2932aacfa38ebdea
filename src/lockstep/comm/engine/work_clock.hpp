#pragma once
#include <atomic>
#include <cstddef>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/wait_times.hpp>

namespace lockstep {

/// How long a rank has worked on its own part of collectives (sums and copies) while it waited; the
/// rest of its waiting was for others: until all had entered, and then for their parts.
/// Thread-safe.
class WorkClock {
 public:
  [[nodiscard]] WaitTimes times() const noexcept {
    return {seconds_.load(std::memory_order_relaxed),
            late_seconds_.load(std::memory_order_relaxed)};
  }
  /// It has waited for ranks that had not entered yet, not counting some microseconds.
  void add_late(Seconds seconds) noexcept {
    late_seconds_.fetch_add(seconds.count(), std::memory_order_relaxed);
  }

  /// While it lives, the caller is inside wait().
  class Waiting {
   public:
    explicit Waiting(WorkClock& clock) : clock_(clock) {
      clock_.waiting_.store(true, std::memory_order_relaxed);
    }
    ~Waiting() { clock_.waiting_.store(false, std::memory_order_relaxed); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    WorkClock& clock_;
  };

  /// Adds the time it lives, where a wait sees it and `bytes` are enough of them for reading the
  /// clock (0.05 us twice) not to matter.
  class Working {
   public:
    Working(WorkClock& clock, std::size_t bytes)
        : scope_("collective", "sum and copy"),
          clock_(clock),
          counts_(clock.waiting_.load(std::memory_order_relaxed) && bytes >= (64U << 10U)) {
      if (counts_) start_ = Clock::now();
    }
    ~Working() {
      if (counts_) clock_.seconds_.fetch_add(seconds_since(start_), std::memory_order_relaxed);
    }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;

   private:
    TraceScope scope_;
    WorkClock& clock_;
    bool counts_;
    Clock::time_point start_;
  };

 private:
  std::atomic<bool> waiting_ = false;
  std::atomic<double> seconds_ = 0.0;
  std::atomic<double> late_seconds_ = 0.0;
};

}  // namespace lockstep
