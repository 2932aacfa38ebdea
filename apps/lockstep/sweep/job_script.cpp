#include "job_script.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scaling/job_script.hpp"

namespace lockstep::sweep {

std::string job_script(const Options& options, std::size_t trials, int threads) {
  const std::string command = scaling::without_script(options.arguments);
  const std::string times =
      "#SBATCH --time=01:00:00\n#SBATCH --signal=B:TERM@120\n#SBATCH --job-name=lockstep-sweep\n";
  if (!options.halving.empty()) {
    return fmt::format(
        "#!/bin/bash\n# One allocation for the whole sweep. Submit it again if its time was not "
        "enough.\n{}#SBATCH --ntasks={}\n#SBATCH --cpus-per-task={}\n"
        "#SBATCH --output=lockstep-sweep-%j.log\n\nexec {}\n",
        times, options.ranks * std::max(1, options.parallel), threads, command);
  }
  return fmt::format(
      "#!/bin/bash\n# An array job: the index is the trial. Submit it again for trials whose time "
      "was not enough.\n# The table, once it is done: the same command without --script.\n{}"
      "#SBATCH --array=0-{}\n#SBATCH --ntasks={}\n#SBATCH --cpus-per-task={}\n"
      "#SBATCH --output=lockstep-sweep-%A_%a.log\n\nexec {} --only \"$SLURM_ARRAY_TASK_ID\"\n",
      times, trials - 1, options.ranks, threads, command);
}

}  // namespace lockstep::sweep
