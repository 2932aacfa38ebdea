#include <algorithm>
#include <string>

#include <lockstep/train/launch/checks.hpp>

namespace lockstep::train {

Findings check_thread_level(const Launch& launch) {
  const auto below = std::ranges::find_if(launch.infos, [](const RankInfo& info) {
    return !info.thread_level.empty() && info.thread_level != "MPI_THREAD_MULTIPLE";
  });
  if (below == launch.infos.end()) return {};
  return {{Finding::Severity::warning, "thread level",
           "MPI grants rank " + std::to_string(below - launch.infos.begin()) + " (" + below->host +
               ") only " + below->thread_level + ", so only the training thread can communicate",
           "Use an MPI that was built with MPI_THREAD_MULTIPLE; a program that initialises MPI "
           "itself requests it with MPI_Init_thread."}};
}

}  // namespace lockstep::train
