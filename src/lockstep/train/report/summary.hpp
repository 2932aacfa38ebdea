#pragma once
#include <string>
#include <utility>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/launch/launch.hpp>
#include <lockstep/train/task/outcome.hpp>

namespace lockstep::train {

/// Contents of summary.json beside the outcome.
struct SummaryFacts {
  std::string app;
  std::string deck_hash;
  std::int64_t seed = 0;
  int threads = 1;
  double wall_s = 0;                       ///< since the process's start
  std::vector<std::int64_t> peak_rss_mib;  ///< largest resident memory so far, by rank
  /// Most memory of a device that tensors held at a time, by rank; empty for a run on the host.
  std::vector<std::int64_t> peak_device_mib;
  std::vector<std::pair<std::string, std::string>> libraries;
  bool completed = false;  ///< all epochs were trained and the last checkpoint was saved
};

/// Every rank's `bytes`, in MiB. Collective.
[[nodiscard]] std::vector<std::int64_t> mib_of_ranks(ProcessGroup& group, std::int64_t bytes);

/// Writes summary.json.
[[nodiscard]] std::string summary_json(const ProcessGroup& group, const Launch& launch,
                                       const Outcome& outcome, const SummaryFacts& facts);

}  // namespace lockstep::train
