#pragma once
#include <string>

#include <lockstep/base/error.hpp>

// What a process can know of its job and do for it without MPI: before MPI_Init, and while it waits
// inside of it for others.

namespace lockstep {

/// The job's processes on this machine, other than this one, that do not run: "rank 1 (process
/// 1234) is stopped (state T), rank 3 ...", "waits for a disk" included. Those that the same
/// launcher has started beside this one. Empty where there are none, or the launcher says no ranks.
[[nodiscard]] std::string standing_ranks_here();

/// Asks the launcher to end the job with this exit code. MPICH's mpiexec, and what speaks PMI-1, is
/// told in so many words: otherwise ranks that wait in MPI_Init do not hear that another has ended.
/// srun, which is not told, ends them by itself (--kill-on-bad-exit). Does not wait, and fails
/// without a word. mpiexec (hydra 4.0) drops what it has not read when it hears of the end:
/// wait_until_stderr_is_read() first.
void ask_launcher_to_end_job(ExitCode code) noexcept;

/// Returns once the launcher, or whoever reads this process's standard error through a pipe, has
/// taken all that was written to it; after 2 s at the latest. At once where it is no pipe.
void wait_until_stderr_is_read() noexcept;

}  // namespace lockstep
