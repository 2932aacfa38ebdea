#include <lockstep/train/run/time_limit.hpp>

#include <fmt/format.h>

#include <lockstep/base/log.hpp>
#include <lockstep/train/run/slurm_time.hpp>

namespace lockstep::train {

TimeLimit::TimeLimit(double max_minutes, double stop_before_limit_s)
    : stop_before_limit_s_(stop_before_limit_s) {
  if (max_minutes > 0)
    latest_end_ = deadline_in(Seconds(max_minutes * 60 - seconds_since_process_start()));
  if (stop_before_limit_s_ > 0)
    asking_ = std::jthread([this](const std::stop_token& over) { ask_slurm(over); });
}

StopReason TimeLimit::reason(double step_s) const noexcept {
  const auto next_end = deadline_in(Seconds(step_s));
  if (next_end > job_end_.load()) return StopReason::time_limit;
  return next_end > latest_end_ ? StopReason::max_minutes : StopReason::none;
}

void TimeLimit::ask_slurm(const std::stop_token& over) {
  const auto left = seconds_left_in_slurm_job(over);
  if (!left) return;
  job_end_ = deadline_in(Seconds(*left - stop_before_limit_s_));
  log(LogLevel::debug, fmt::format("Slurm leaves this job {:.0f} s", *left));
}

}  // namespace lockstep::train
