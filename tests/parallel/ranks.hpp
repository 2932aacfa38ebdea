#pragma once
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::test {

using RankBody = std::function<void(const std::shared_ptr<ProcessGroup>&)>;

/// The numbers of ranks on which this program can run a body: the job's under mpiexec, or 1 to 4
/// threads. Linked from ranks_mpi.cpp or ranks_threads.cpp, so that one test source serves both
/// backends.
[[nodiscard]] std::vector<int> rank_counts();

/// Runs `body` once per rank, each with its group of `ranks` ranks, and closes the group. Modules
/// that it makes are on asked_for_device().
void on_ranks(int ranks, const RankBody& body);

/// A file in the temporary folder that all ranks of this run name alike, and no other run: tests
/// run at the same time. Under mpiexec the ranks are its children.
[[nodiscard]] inline std::filesystem::path file_of_all_ranks(const std::string& name) {
  const pid_t run = rank_counts().size() > 1 ? getpid() : getppid();
  return std::filesystem::temp_directory_path() /
         ("lockstep_" + name + "_" + std::to_string(run) + ".h5");
}

/// True if all ranks gave the same bytes. Collective.
[[nodiscard]] inline bool same_on_all_ranks(ProcessGroup& group, const std::string& bytes) {
  for (const auto& other : all_gather_object(group, bytes)) {
    if (other != bytes) return false;
  }
  return true;
}

}  // namespace lockstep::test
