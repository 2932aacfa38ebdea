#pragma once
#include <atomic>
#include <stop_token>
#include <thread>

#include <lockstep/base/clock.hpp>
#include <lockstep/train/run/stop_request.hpp>

namespace lockstep::train {

/// The time that a process may take: a limit of its own, and that of its Slurm job. Slurm is asked
/// once, on a thread of its own, since it may take its time.
class TimeLimit {
 public:
  /// `max_minutes` are counted from the start of the process; 0: no limit. The end of the job is
  /// taken for `stop_before_limit_s` earlier than it is; 0: Slurm is not asked.
  TimeLimit(double max_minutes, double stop_before_limit_s);

  /// Whether another step, which takes `step_s`, would end too late: max_minutes, time_limit or
  /// none. Any thread may ask.
  [[nodiscard]] StopReason reason(double step_s) const noexcept;

 private:
  void ask_slurm(const std::stop_token& over);

  double stop_before_limit_s_;
  Clock::time_point latest_end_ = (Clock::time_point::max)();
  std::atomic<Clock::time_point> job_end_{(Clock::time_point::max)()};  ///< with the margin
  std::jthread asking_;  ///< the last member: its end is waited for before the others go
};

}  // namespace lockstep::train
