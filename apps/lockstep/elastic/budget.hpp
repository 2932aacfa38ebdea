#pragma once
// How often, and how soon, a run is started again.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>

#include <lockstep/base/clock.hpp>

namespace lockstep::elastic {

/// Failures in a sliding window: whoever fails, and however quickly it comes back, counts here and
/// nowhere else. Planned changes are not told. Nor does progress give anything back before its
/// time: a run that fails each few minutes has something to be looked at.
class Budget {
 public:
  /// `restarts` in `window`; a window of 0 never ends.
  Budget(int restarts, Seconds window) : restarts_(restarts), window_(window) {}

  /// Counts a failure; false if it was one too many.
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

/// Seconds to wait before a restart: none after a failure that came later in the training than the
/// one before, then 1, 2, 4 ... up to `longest`.
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
  std::int64_t reached_ = -1;  ///< below every checkpoint: the first failure is not in vain
};

}  // namespace lockstep::elastic
