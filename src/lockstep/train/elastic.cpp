#include <lockstep/train/elastic.hpp>

#include <algorithm>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/train/run/elastic_report.hpp>
#include <lockstep/train/run/time_limit.hpp>

namespace lockstep::train {

StopRequest::StopRequest(ProcessGroup& group, const StopOptions& options) : agreement_(group) {
  listen_for_stop_requests();
  // Before the supervisor hears of it all ranks listen: a signal would end one that does not.
  agreement_.ask(StopReason::none);
  static_cast<void>(agreement_.answer());
  agree(group, 0, [&] {
    limit_ = std::make_unique<TimeLimit>(options.max_minutes, options.stop_before_limit_s);
    report_ = ElasticReport::open(options.checkpoints);
  });
}

StopRequest::~StopRequest() = default;

bool StopRequest::requested(std::int64_t step) {
  StopReason mine = requested_stop();
  if (limit_) {
    const auto now = Clock::now();
    const Seconds step_s = now - std::exchange(step_start_, now).value_or(now);
    mine = std::max(mine, limit_->reason(step_s.count()));
  }
  if (report_) report_->made_step(step);
  agreement_.ask(mine);
  reason_ = agreement_.answer();
  return reason_ != StopReason::none;
}

int StopRequest::exit_code(bool is_complete) {
  if (report_) report_->end(is_complete, is_complete ? StopReason::none : reason_);
  return static_cast<int>(is_complete ? ExitCode::done : ExitCode::requeue);
}

}  // namespace lockstep::train
