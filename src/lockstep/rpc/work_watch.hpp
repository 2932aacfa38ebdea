#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include <lockstep/base/clock.hpp>

namespace lockstep::rpc {

/// The work that a rank has done for others so far.
struct WorkDone {
  std::uint64_t messages = 0;  ///< sent and handled, without queries and notices
  bool is_busy =
      false;  ///< it still executes a call that a caller waits for, or waits for an answer
};

/// The last time that any rank was seen to work: Options::shutdown_timeout counts from it. A rank
/// that waits in a shutdown queries the others from time to time. Thread-safe.
class WorkWatch {
 public:
  explicit WorkWatch(int ranks) : known_(static_cast<std::size_t>(ranks)) {}

  void start() {
    const std::lock_guard lock(mutex_);
    last_work_ = Clock::now();
  }
  void heard(int rank, const WorkDone& work) {
    const std::lock_guard lock(mutex_);
    auto& known = known_[static_cast<std::size_t>(rank)];
    if (work.is_busy || (known && *known != work.messages)) last_work_ = Clock::now();
    known = work.messages;
  }
  [[nodiscard]] Clock::time_point last_work() const {
    const std::lock_guard lock(mutex_);
    return last_work_;
  }
  /// Messages that ask or tell.
  void count_sent(int more) noexcept { sent_.fetch_add(more); }
  void count_handled() noexcept { handled_.fetch_add(1); }
  [[nodiscard]] std::int64_t sent() const noexcept { return sent_.load(); }
  [[nodiscard]] std::int64_t handled() const noexcept { return handled_.load(); }

 private:
  mutable std::mutex mutex_;  // guards the members below
  std::vector<std::optional<std::uint64_t>> known_;
  Clock::time_point last_work_;
  std::atomic<std::int64_t> sent_ = 0, handled_ = 0;
};

}  // namespace lockstep::rpc
