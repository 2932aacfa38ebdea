#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <lockstep/train/launch/checks.hpp>

namespace lockstep::train {
namespace {

using Mask = std::vector<int>;

/// The most crowded place of one machine: the mask with the most ranks confined to it per core.
struct SharedCores {
  int ranks = 0;
  Mask cores;
};

SharedCores most_shared_cores(const Launch& launch, const std::vector<int>& ranks) {
  std::set<Mask> masks;
  Mask all;
  for (const int rank : ranks) {
    const Mask& mask = launch.info(rank).cores;
    masks.insert(mask);
    Mask both;
    std::ranges::set_union(all, mask, std::back_inserter(both));
    all = std::move(both);
  }
  masks.insert(all);  // partly overlapping masks
  SharedCores worst;
  for (const Mask& mask : masks) {
    if (mask.empty()) continue;  // unknown to the system
    const auto confined = static_cast<int>(std::ranges::count_if(
        ranks, [&](int rank) { return std::ranges::includes(mask, launch.info(rank).cores); }));
    const bool worse = worst.ranks == 0 || static_cast<std::size_t>(confined) * worst.cores.size() >
                                               static_cast<std::size_t>(worst.ranks) * mask.size();
    if (worse) worst = {confined, mask};
  }
  return worst;
}

}  // namespace

Findings check_cores(const Launch& launch) {
  Findings findings;
  for (std::size_t node = 0; node < launch.layout.hosts().size(); ++node) {
    const SharedCores shared =
        most_shared_cores(launch, launch.layout.ranks_on(static_cast<int>(node)));
    if (static_cast<std::size_t>(shared.ranks) <= shared.cores.size()) continue;
    findings.push_back({Finding::Severity::warning, "cores",
                        std::to_string(shared.ranks) + " ranks share " +
                            std::to_string(shared.cores.size()) + " core(s) on " +
                            launch.layout.hosts()[node] + " (" + core_list(shared.cores) +
                            "), so they take turns and each runs slower",
                        "Start fewer ranks there, or give the job more cores (Slurm: "
                        "--cpus-per-task, mpiexec: -bind-to core)."});
  }
  return findings;
}

}  // namespace lockstep::train
