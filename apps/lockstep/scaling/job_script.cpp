#include "job_script.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "launch.hpp"

namespace lockstep::scaling {
namespace {

constexpr std::string_view about =
    "# One allocation for the whole study. Submit it again if its time was not enough: points "
    "that\n"
    "# are done are not measured again.\n";

/// The lines of a script that find the job's hosts, and the options that give them to the study. A
/// command line that names hosts or a launcher keeps its own.
struct Hosts {
  std::string lines, options;
};

Hosts hosts_from(const Options& options, std::string_view folder, const std::string& list) {
  if (!options.members.empty()) return {};
  return {fmt::format("members=$(mktemp -p \"{}\")\n{} >\"$members\"\n", folder, list),
          " --members \"$members\""};
}

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
  // exec: the signal that comes before the job's end reaches the study, and its exit code is the
  // job's. The batch systems remove the folders of temporary files.
  if (kind == "pbs") {
    const Hosts hosts = hosts_from(
        options, "${TMPDIR:-/tmp}",
        "sort \"${PBS_NODEFILE:?}\" | uniq -c | awk '{print $2, $1}'");  // it has a line a slot
    return fmt::format(
        "#!/bin/bash\n{}#PBS -N lockstep-scaling\n#PBS -l select={}:ncpus={}:mpiprocs={}\n"
        "#PBS -l place=excl\n#PBS -l walltime=01:00:00\n#PBS -j oe\n\n"
        "cd \"${{PBS_O_WORKDIR:?}}\" || exit\n{}exec {}{}\n",
        about, nodes, ranks_a_node * threads, ranks_a_node, hosts.lines, study, hosts.options);
  }
  const Hosts hosts = hosts_from(
      options, "${FLUX_JOB_TMPDIR:-/tmp}",
      fmt::format("flux hostlist --expand instance | tr ' ' '\\n' | sed 's/$/ {}/'", ranks_a_node));
  const std::string launcher =
      options.launcher.empty() ? fmt::format(" --launcher 'flux run --cores-per-task={}'", threads)
                               : std::string();
  return fmt::format(
      "#!/bin/bash\n{}#flux: --job-name=lockstep-scaling\n#flux: --nodes={}\n#flux: --exclusive\n"
      "#flux: --time-limit=60m\n#flux: --output=lockstep-scaling-{{{{id}}}}.log\n\n{}exec {}{}{}\n",
      about, nodes, hosts.lines, study, hosts.options, launcher);
}

}  // namespace lockstep::scaling
