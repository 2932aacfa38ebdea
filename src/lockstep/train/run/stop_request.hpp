#pragma once
#include <csignal>
#include <cstdint>

namespace lockstep::train {

/// Why a run stops before its end. Where ranks know of several reasons the highest counts.
enum class StopReason : std::uint8_t {
  none,
  sighup,
  sigusr1,
  sigterm,
  sigint,
  max_minutes,  ///< run.max_minutes are over, or would be after one more step
  time_limit,   ///< the job's, as Slurm knows it, likewise
  stop_file,    ///< somebody has made a file `stop` in the run folder
  folder_lost,  ///< the run folder was removed, moved or taken over: nothing can be saved there
};

/// "SIGTERM", "run.max_minutes" ...: for messages and summary.json; empty for none.
[[nodiscard]] const char* words(StopReason reason) noexcept;

/// From now until the process ends, SIGTERM and SIGUSR1, however many, and the first SIGINT ask it
/// to stop instead of ending it: batch systems send the former before the time limit, a person's
/// Ctrl-C the latter. The training loop looks at each step's end, saves, and the program ends with
/// ExitCode::requeue. A second SIGINT, half a second later or more, ends the process at once; what
/// comes sooner is the same Ctrl-C, of which launchers send a copy. SIGHUP, of a terminal that is
/// closed, asks as SIGTERM does where it would end the process now: not where it is ignored
/// (nohup), nor where a library has a handler for it (UCX: see apps/hangup.c). For programs, before
/// MPI_Init: App does it. Nothing puts the old handlers back: a signal after the last save must not
/// lose the exit code.
void listen_for_stop_requests() noexcept;

/// Around MPI_Init: SIGUSR1 and SIGHUP come when that is over, and to us again. MPICH puts a
/// handler of its own before ours for SIGUSR1, and asks the launcher for dead processes at the next
/// call once one has come: a process that was started without a launcher starts one for that, and
/// waits for it for ever. An MPI that loads UCX only now has SIGHUP replaced now.
class StopRequestsHeld {
 public:
  StopRequestsHeld() noexcept;
  ~StopRequestsHeld();
  StopRequestsHeld(const StopRequestsHeld&) = delete;
  StopRequestsHeld& operator=(const StopRequestsHeld&) = delete;

 private:
  struct sigaction usr1_ {
  }, hup_{};
  sigset_t mask_{};
};

/// Of the signals that have come to this process.
[[nodiscard]] StopReason requested_stop() noexcept;

}  // namespace lockstep::train
