#pragma once

namespace lockstep::train {

/// While alive, SIGTERM and SIGUSR1 ask this process to stop instead of ending it: batch systems
/// send them before the time limit. The training loop looks, agrees over the ranks, saves and ends
/// with ExitCode::requeue.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  [[nodiscard]] static bool received() noexcept;
};

}  // namespace lockstep::train
