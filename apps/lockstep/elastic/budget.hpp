#pragma once
// Limits and delays of restarts.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>

#include <lockstep/base/clock.hpp>

namespace lockstep::elastic {

/// Counts all failures in a sliding window, whichever rank or host failed and however soon it
/// returns. Planned changes are not counted. Progress gives nothing back early: a run that fails
/// every few minutes needs a look.
class Budget {
 public:
  /// Allows `restarts` within `window`; a window of 0 never ends.
  Budget(int restarts, Seconds window) : restarts_(restarts), window_(window) {}

  /// Counts a failure. False if it exceeds the limit.
  [[nodiscard]] bool allows(Clock::time_point now) {
    while (window_.count() > 0 && !failures_.empty() && now - failures_.front() > window_)
      failures_.pop_front();
    failures_.push_back(now);
    return left() >= 0;
  }
  [[nodiscard]] int left() const noexcept { return restarts_ - static_cast<int>(failures_.size()); }

 private:
  int restarts_;
  Seconds window_;
  std::deque<Clock::time_point> failures_;
};

/// Seconds to wait before a restart. 0 if the training got further than before the last failure;
/// else 1, 2, 4 ... up to `longest`.
class BackOff {
 public:
  static constexpr double longest = 60;

  [[nodiscard]] double after_failure(std::int64_t checkpoint_step) {
    in_vain_ = checkpoint_step > reached_ ? 0 : in_vain_ + 1;
    reached_ = std::max(reached_, checkpoint_step);
    return in_vain_ == 0 ? 0 : std::min(longest, std::exp2(in_vain_ - 1));
  }

 private:
  int in_vain_ = 0;
  std::int64_t reached_ =
      -1;  ///< below every checkpoint, so that the first failure counts as progress
};

}  // namespace lockstep::elastic
