#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/process_group.hpp>

// Kinds of ranks, and the end of their job if one fails without the others' knowledge. Each
// function runs the body on every rank and returns the exit code for main(). Nothing is thrown:
// failures are printed on stderr.

namespace lockstep::train {

class Console;

/// The body of a rank, with a group for tensors of the host. It returns the rank's exit code, or
/// throws an Agreed error on all ranks. It sets `run_dir` as soon as the run folder exists.
using RankBody = std::function<ExitCode(std::shared_ptr<ProcessGroup> world, Console& console,
                                        std::filesystem::path& run_dir)>;

/// Ranks are the processes started by mpiexec or srun. A rank that fails alone ends the job with
/// MPI_Abort. MPI may remove its own arguments from `argc` and `argv` before the body runs.
[[nodiscard]] ExitCode run_ranks_as_processes(const std::string& name, const GroupOptions& options,
                                              int& argc, char**& argv, const RankBody& body);

/// Ranks are `ranks` threads of this process; MPI is not initialised. A rank that fails alone
/// interrupts the others' waits. Ranks that have not ended after five seconds, because they compute
/// or hang, end with the process.
[[nodiscard]] ExitCode run_ranks_as_threads(const std::string& name, int ranks,
                                            const GroupOptions& options, const RankBody& body);

}  // namespace lockstep::train
