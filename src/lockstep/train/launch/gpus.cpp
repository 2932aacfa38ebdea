#include <map>
#include <string>
#include <vector>

#include <lockstep/train/launch/checks.hpp>

namespace lockstep::train {

Findings check_gpus(const Launch& launch) {
  std::map<std::pair<int, std::string>, std::vector<int>> users;  // by machine and device
  for (int rank = 0; rank < launch.size(); ++rank) {
    const std::string& gpu = launch.info(rank).gpu;
    if (!gpu.empty()) users[{launch.layout.node_of(rank), gpu}].push_back(rank);
  }
  Findings findings;
  for (const auto& [device, ranks] : users) {
    if (ranks.size() < 2) continue;
    std::string names;
    for (const int rank : ranks) names += (names.empty() ? "" : ", ") + std::to_string(rank);
    findings.push_back(
        {Finding::Severity::warning, "gpu",
         "ranks " + names + " compute on the same GPU, " + device.second + " of " +
             launch.layout.hosts()[static_cast<std::size_t>(device.first)] +
             ", so they take turns and share its memory",
         "Give each rank a GPU of its own (Slurm: --gpus-per-task=1 --gpu-bind=single:1; "
         "elsewhere CUDA_VISIBLE_DEVICES for each rank), or start one rank for each GPU."});
  }
  return findings;
}

}  // namespace lockstep::train
