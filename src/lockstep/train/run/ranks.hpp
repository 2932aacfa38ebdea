#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/process_group.hpp>

// What a program's ranks are, and how their job ends where one of them fails and the others cannot
// know. Each function runs the body on every rank and returns the exit code for main(); nothing is
// thrown: failures have been said on stderr.

namespace lockstep::train {

class Console;

/// What each rank of a program does, with a group for tensors of the host: returns its exit code,
/// throws an Agreed error where all ranks do. It tells `run_dir` where the run folder is as soon as
/// there is one.
using RankBody = std::function<ExitCode(std::shared_ptr<ProcessGroup> world, Console& console,
                                        std::filesystem::path& run_dir)>;

/// Ranks are the processes that mpiexec or srun started. A rank that fails alone ends the job with
/// MPI_Abort. MPI may take arguments of its own from `argc` and `argv` before the body runs.
[[nodiscard]] ExitCode run_ranks_as_processes(const std::string& name, const GroupOptions& options,
                                              int& argc, char**& argv, const RankBody& body);

/// Ranks are `ranks` threads of this process; MPI is not initialised. A rank that fails alone
/// takes the others out of their waits; those that have not come out after five seconds, because
/// they compute or hang, end with the process.
[[nodiscard]] ExitCode run_ranks_as_threads(const std::string& name, int ranks,
                                            const GroupOptions& options, const RankBody& body);

}  // namespace lockstep::train
