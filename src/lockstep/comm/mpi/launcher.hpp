#pragma once
#include <string>

#include <lockstep/base/error.hpp>

// A process's knowledge of its job and its actions without MPI: before MPI_Init, and while it waits
// inside of it for others.

namespace lockstep {

/// The job's processes on this machine, other than this one, that do not run: "rank 1 (process
/// 1234) is stopped (state T), rank 3 ...", "waits for a disk" included. The ranks that the same
/// launcher has started. Empty if there are none, or if the launcher does not tell the ranks.
[[nodiscard]] std::string standing_ranks_here();

/// Asks the launcher to end the job with this exit code. MPICH's mpiexec, and launchers that speak
/// PMI-1, are notified explicitly: otherwise ranks that wait in MPI_Init do not learn that another
/// has ended. srun is not notified and ends them by itself (--kill-on-bad-exit). Does not wait, and
/// ignores failures. mpiexec (hydra 4.0) drops unread output when it is notified of the end: call
/// wait_until_stderr_is_read() first.
void ask_launcher_to_end_job(ExitCode code) noexcept;

/// Returns once the reader of this process's standard error (the launcher, through a pipe) has
/// taken all output; after 2 s at the latest. Returns at once if it is not a pipe.
void wait_until_stderr_is_read() noexcept;

}  // namespace lockstep
