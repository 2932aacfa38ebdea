#include <lockstep/train/launch.hpp>

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/base/hash.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/version.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep::train {
namespace {

std::string affinity_mask(int& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::string mask;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    cores = 1;
    return mask;
  }
  cores = std::max(1, CPU_COUNT(&set));
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) mask += std::to_string(core) + ",";
  }
  return mask;
}

/// XXH3 of the program's file: equal on all ranks unless a stale copy lies on some node.
std::string program_hash() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  Hasher hasher;
  std::vector<char> buffer(1U << 16U);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    hasher.update(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  return to_hex(hasher.digest());
}

std::optional<int> environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (!text) return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return end != text && *end == '\0' ? std::optional(static_cast<int>(value)) : std::nullopt;
}

/// "rank 0 and rank 3 differ" for the first rank that differs from rank 0; empty if none does.
std::string first_difference(const std::vector<std::string>& values) {
  for (std::size_t rank = 1; rank < values.size(); ++rank) {
    if (values[rank] != values[0])
      return "rank " + std::to_string(rank) + " has " + values[rank] + ", rank 0 has " + values[0];
  }
  return "";
}

void check_world_of_one(const ProcessGroup& group, std::vector<Finding>& findings) {
  if (group.size() != 1) return;
  // Launchers' variables tell only that several processes were started, never who we are.
  for (const char* variable : {"SLURM_STEP_NUM_TASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}) {
    const auto started = environment_number(variable);
    if (!started || *started <= 1) continue;
    const bool slurm = std::string(variable).starts_with("SLURM");
    findings.push_back(
        {true, "this process is alone in its MPI world, but the launcher started " +
                   std::to_string(*started) + " of them (" + variable +
                   "): each would train by itself. " +
                   (slurm ? "Start with srun --mpi=pmi2 (srun --mpi=list shows what this Slurm "
                            "offers), or with "
                            "the mpiexec of the MPI that Lockstep was built with."
                          : "Start with the mpiexec of the MPI that Lockstep was built with.")});
    return;
  }
}

}  // namespace

Launch inspect_launch(ProcessGroup& group) {
  Launch launch;
  launch.host = host_name();
  const std::string mask = affinity_mask(launch.cores_in_mask);
  const auto places = all_gather_object(group, launch.host + '\n' + mask);
  launch.ranks_on_host = 0;
  launch.ranks_on_mask = 0;
  for (const auto& place : places) {
    const std::string host = place.substr(0, place.find('\n'));
    if (host == launch.host) ++launch.ranks_on_host;
    if (place == launch.host + '\n' + mask) ++launch.ranks_on_mask;
    if (std::ranges::find(launch.hosts, host) == launch.hosts.end()) launch.hosts.push_back(host);
  }
  return launch;
}

std::vector<Finding> check_launch(ProcessGroup& group, const Launch& launch,
                                  const std::string& deck_hash) {
  std::vector<Finding> findings;
  check_world_of_one(group, findings);

  const auto compare = [&](const std::string& mine, const std::string& what,
                           const std::string& remedy) {
    const std::string difference = first_difference(all_gather_object(group, mine));
    if (!difference.empty())
      findings.push_back({true, what + " differs between ranks: " + difference + ". " + remedy});
  };
  compare(version(), "the Lockstep version", "Start the same installation on every node.");
  compare(program_hash(), "the program",
          "Start the same executable on every node; rebuild or copy it where it is stale.");
  compare(deck_hash, "the resolved deck",
          "Give every rank the same deck, --set options and environment.");

  const double crowded = launch.ranks_on_mask > launch.cores_in_mask ? 1.0 : 0.0;
  if (all_reduce_scalar(group, crowded, ReduceOp::max) > 0.0) {
    const auto places = all_gather_object(
        group, crowded == 0.0
                   ? ""
                   : std::to_string(launch.ranks_on_mask) + " ranks share " +
                         std::to_string(launch.cores_in_mask) + " core(s) on " + launch.host);
    const auto& place =
        *std::ranges::find_if(places, [](const std::string& p) { return !p.empty(); });
    findings.push_back(
        {false, place +
                    ", so they take turns and each runs slower. Start fewer ranks there, or give "
                    "the job more cores (Slurm: --cpus-per-task, mpiexec: -bind-to core)."});
  }
  return findings;
}

}  // namespace lockstep::train
