#pragma once
#include <csignal>
#include <cstdint>

namespace lockstep::train {

/// Reasons to stop a run before its end. If ranks have several, the highest counts.
enum class StopReason : std::uint8_t {
  none,
  sighup,
  sigusr1,
  sigterm,
  sigint,
  max_minutes,        ///< run.max_minutes have passed, or would have after one more step
  time_limit,         ///< the job's time limit, as reported by Slurm, likewise
  stop_after_epochs,  ///< run.stop_after_epochs are done
  stop_after_steps,   ///< run.stop_after_steps are done
  stop_file,          ///< there is a file `stop` in the run folder
  folder_lost,  ///< the run folder was removed, moved or taken over: nothing can be saved there
};

/// "SIGTERM", "run.max_minutes" ...: for messages and summary.json; empty for none.
[[nodiscard]] const char* words(StopReason reason) noexcept;

/// From now until the process ends, SIGTERM and SIGUSR1, any number of them, and the first SIGINT
/// request a stop instead of ending the process. Batch systems send the first two before the time
/// limit; Ctrl-C sends SIGINT. The training loop checks at each step's end, and at
/// each batch of an evaluation, saves, and the program
/// ends with ExitCode::requeue. A second SIGINT half a second later or more ends the process at
/// once; an earlier one is a launcher's copy of the same Ctrl-C. SIGHUP of a closed terminal
/// requests a stop if it would end the process: not if it is ignored (nohup), nor if a library
/// handles it (UCX: see apps/hangup.c). For programs, before MPI_Init; App calls it. The old
/// handlers are never restored: a signal after the last save must not change the exit code.
void listen_for_stop_requests() noexcept;

/// Guards MPI_Init: SIGUSR1 and SIGHUP are delivered after it, and to Lockstep's handlers. MPICH
/// installs a handler of its own for SIGUSR1, and after one asks the launcher for dead processes at
/// the next call. A process started without a launcher would start one for that, and wait for it
/// for ever. An MPI that loads UCX only now replaces SIGHUP's handler now.
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

/// The highest reason among the signals received by this process.
[[nodiscard]] StopReason requested_stop() noexcept;

}  // namespace lockstep::train
