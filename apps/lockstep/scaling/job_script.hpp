#pragma once
#include <string>
#include <vector>

#include "options.hpp"
#include "plan.hpp"

namespace lockstep::scaling {

/// The command line that a job script runs: the shell's, without `--script KIND`.
[[nodiscard]] std::string without_script(const std::vector<std::string>& arguments);

/// A job script that makes a study in one allocation of Slurm's ("slurm"), PBS' or Flux' (`kind`):
/// `nodes` nodes with `ranks_a_node` ranks each of `threads` cores, and the study's own command
/// line without --script.
[[nodiscard]] std::string job_script(const std::string& kind, const Options& options, int nodes,
                                     int ranks_a_node, int threads);

}  // namespace lockstep::scaling
