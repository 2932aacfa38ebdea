#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/run/stop_agreement.hpp>
#include <lockstep/train/run/stop_request.hpp>

// Stop, save and start again, for a program with a training loop of its own: under
// `lockstep elastic` (docs/guide/elastic.md), in a batch job with a time limit, or by hand.

namespace lockstep::train {

class ElasticReport;
class TimeLimit;

/// The limits of a StopRequest, and what `lockstep elastic` is told of the program.
struct StopOptions {
  /// Folder of the program's checkpoints (checkpoint_path()): `lockstep elastic` reads there from
  /// which step a start continues. Empty: it does not know.
  std::filesystem::path checkpoints = {};
  double max_minutes = 0;           ///< since the process's start; 0: no limit
  double stop_before_limit_s = 60;  ///< before Slurm's time limit; 0: Slurm is not asked
};

/// A request to stop, on which all ranks agree at the same step, whichever of them it reaches:
/// SIGTERM, SIGUSR1, SIGINT or SIGHUP (listen_for_stop_requests), a time limit, or
/// `lockstep elastic`, which wants to go on with other members. train::App's programs stop by the
/// same signals, limits and agreement.
///   train::StopRequest stop(*group, {.checkpoints = folder});  // behind MpiSession
///   ... load newest_good_checkpoint(*group, folder), if there is one ...
///   while (step < last) {
///     ... step ...
///     const bool stops = stop.requested(step);
///     if (stops || step % 100 == 0) ... save ...
///     if (stops) break;
///   }
///   return stop.exit_code(step == last);
/// One at a time in a process; of a group that is open as long as this lives. Its thread, where it
/// has one, is rank 0's, and sleeps.
class StopRequest {
 public:
  /// From now until the process ends, signals ask for a stop instead of ending it. Collective.
  /// Throws AgreedError, on all ranks, where the folder of `lockstep elastic` cannot be written.
  explicit StopRequest(ProcessGroup& group, const StopOptions& options = {});
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// Whether any rank was asked to stop; once true, always. Call it at the end of each step.
  /// `step`: updates made since the beginning of the training, for the supervisor's history.
  /// Collective: one all-reduce of 8 bytes, whose answer comes less than 1 us after the last rank
  /// has asked (two ranks of one machine; between machines MPI's latency). Allocates nothing. A
  /// time limit counts as reached when another step like the last one would end behind it.
  [[nodiscard]] bool requested(std::int64_t step);

  /// Why: the highest reason of any rank at the last requested(). Local.
  [[nodiscard]] StopReason reason() const noexcept { return reason_; }

  /// What main() returns, once all is saved: 0 if the training `is_complete`, else 75, "start me
  /// again" (ExitCode::requeue). Tells `lockstep elastic`, which takes an exit code of 0 without
  /// this call for a failure. Local.
  [[nodiscard]] int exit_code(bool is_complete);

 private:
  StopAgreement agreement_;
  std::unique_ptr<TimeLimit> limit_;       ///< rank 0's
  std::unique_ptr<ElasticReport> report_;  ///< rank 0's, under lockstep elastic
  StopReason reason_ = StopReason::none;
  std::optional<Clock::time_point> step_start_;  ///< none before the first requested()
};

}  // namespace lockstep::train
