#include "job_script.hpp"

#include <fmt/format.h>

#include <string_view>

#include "launch.hpp"

namespace lockstep::scaling {
namespace {

constexpr std::string_view about =
    "# One allocation for the whole study. Submit it again if its time was not enough: points "
    "that\n"
    "# are done are not measured again.\n";

/// The job's hosts as --members wants them: from a file with a line a slot or a node.
constexpr std::string_view members =
    "members=$(mktemp)\n"
    "trap 'rm -f \"$members\"' EXIT\n";

}  // namespace

std::string without_script(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--script") {
      ++i;
    } else if (!word.starts_with("--script=")) {
      words.push_back(word);
    }
  }
  return quoted(words);
}

std::string job_script(const std::string& kind, const Options& options, int nodes, int ranks_a_node,
                       int threads) {
  const std::string study = without_script(options.arguments);
  if (kind == "slurm") {
    return fmt::format(
        "#!/bin/bash\n{}#SBATCH --job-name=lockstep-scaling\n#SBATCH --nodes={}\n"
        "#SBATCH --ntasks-per-node={}\n#SBATCH --cpus-per-task={}\n#SBATCH --exclusive\n"
        "#SBATCH --time=01:00:00\n#SBATCH --signal=B:TERM@60\n"
        "#SBATCH --output=lockstep-scaling-%j.log\n\nexec {}\n",
        about, nodes, ranks_a_node, threads, study);
  }
  if (kind == "pbs") {
    return fmt::format(
        "#!/bin/bash\n{}#PBS -N lockstep-scaling\n#PBS -l select={}:ncpus={}:mpiprocs={}\n"
        "#PBS -l place=excl\n#PBS -l walltime=01:00:00\n#PBS -j oe\n\ncd \"$PBS_O_WORKDIR\"\n{}"
        "sort \"$PBS_NODEFILE\" | uniq -c | awk '{{print $2, $1}}' >\"$members\"\n"
        "{} --members \"$members\"\n",
        about, nodes, ranks_a_node * threads, ranks_a_node, members, study);
  }
  return fmt::format(
      "#!/bin/bash\n{}#flux: --job-name=lockstep-scaling\n#flux: --nodes={}\n#flux: --exclusive\n"
      "#flux: --time-limit=60m\n#flux: --output=lockstep-scaling-{{{{id}}}}.log\n\n{}"
      "flux hostlist --expand --delimiter='\\n' instance | sed 's/$/ {}/' >\"$members\"\n"
      "{} --members \"$members\" --launcher 'flux run --cores-per-task={}'\n",
      about, nodes, members, ranks_a_node, study, threads);
}

}  // namespace lockstep::scaling
