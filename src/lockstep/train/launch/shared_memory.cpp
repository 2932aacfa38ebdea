#include <fmt/format.h>

#include <lockstep/train/launch/checks.hpp>

namespace lockstep::train {

Findings check_shared_memory(const Launch& launch, std::size_t bytes_a_rank) {
  Findings findings;
  if (launch.is_one_process())
    return findings;  // ranks of one process need no file to share memory
  for (std::size_t node = 0; node < launch.layout.hosts().size(); ++node) {
    const auto& ranks = launch.layout.ranks_on(static_cast<int>(node));
    const RankInfo& info = launch.info(ranks.front());
    const double needed_mib =
        static_cast<double>(bytes_a_rank) * static_cast<double>(ranks.size()) / 0x1p20;
    if (ranks.size() < 2 || needed_mib <= info.shm_free_mib) continue;
    findings.push_back(
        {Finding::Severity::warning, "/dev/shm",
         fmt::format("/dev/shm on {} has {:.1f} MiB free of {:.1f}, and the gradients of {} ranks "
                     "need {:.1f} MiB, so they travel through MPI instead, several times slower",
                     info.host, info.shm_free_mib, info.shm_mib, ranks.size(), needed_mib),
         "Enlarge it (mount -o remount,size=8G /dev/shm; docker: --shm-size=8g), or remove files "
         "of others there."});
  }
  return findings;
}

}  // namespace lockstep::train
