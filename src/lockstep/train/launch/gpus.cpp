#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include <lockstep/train/launch/checks.hpp>
#include <lockstep/train/launch/shared_devices.hpp>

namespace lockstep::train {

Findings check_gpus(const Launch& launch) {
  std::vector<std::string> gpus;
  for (const RankInfo& info : launch.infos) gpus.push_back(info.gpu);
  Findings findings;
  for (const auto& [node, gpu, ranks] : shared_devices(launch.layout, gpus)) {
    findings.push_back(
        {Finding::Severity::warning, "gpu",
         fmt::format("ranks {} compute on the same GPU, {} of {}, so they take turns and share its "
                     "memory",
                     fmt::join(ranks, ", "), gpu,
                     launch.layout.hosts()[static_cast<std::size_t>(node)]),
         "Give each rank a GPU of its own (Slurm: --gpus-per-task=1 --gpu-bind=single:1; "
         "elsewhere CUDA_VISIBLE_DEVICES for each rank), or start one rank for each GPU."});
  }
  return findings;
}

}  // namespace lockstep::train
