#pragma once
// What the points run on, and the commands that start them.
#include <string>
#include <vector>

#include "elastic/launcher.hpp"
#include "options.hpp"
#include "plan.hpp"

namespace lockstep::scaling {

/// What there is to run on: the hosts of --members, the Slurm allocation, or this machine with as
/// many slots as ranks of `threads` cores have room. Throws InputError.
[[nodiscard]] elastic::Hosts hosts_for(const Options& options, int threads);

/// mpiexec or srun as `lockstep elastic` starts them, each rank bound to its cores, or `flux run`.
class PointLauncher {
 public:
  /// Throws InputError where the launcher is no program.
  PointLauncher(const Options& options, int threads);

  [[nodiscard]] elastic::Launcher::Command command(const Point& point, int start,
                                                   const std::vector<std::string>& app) const;
  /// After the launcher was killed.
  void end_elsewhere(int start) const { launcher_.end_elsewhere(start); }

 private:
  std::vector<std::string> words_, binding_;
  elastic::Launcher launcher_;
};

/// One point of a study as the program's arguments behind the deck: what the study adds to the
/// user's own --set. `run_folder` is where the run works.
[[nodiscard]] std::vector<std::string> settings_of(const Point& point, const Options& options,
                                                   int threads, const std::string& run_folder);

/// Steps between two rows of metrics.jsonl.
[[nodiscard]] std::int64_t steps_a_row(std::int64_t steps);

/// `command` as a shell reads it: words in quotes where they need them.
[[nodiscard]] std::string quoted(const std::vector<std::string>& command);

}  // namespace lockstep::scaling
