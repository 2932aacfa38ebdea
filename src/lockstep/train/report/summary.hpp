#pragma once
#include <filesystem>
#include <optional>
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

/// What a run measured of its training.
struct MeasuredFigures {
  double samples_per_s = 0, first_step_s = 0, wall_s = 0;  ///< not a number: null in the file
};
/// Those of a summary.json of a run of `steps` steps; nothing if the file is of another, or
/// damaged.
[[nodiscard]] std::optional<MeasuredFigures> measured_figures(const std::filesystem::path& summary,
                                                              std::int64_t steps);

/// Every rank's `bytes`, in MiB. Collective.
[[nodiscard]] std::vector<std::int64_t> mib_of_ranks(ProcessGroup& group, std::int64_t bytes);

/// Writes summary.json.
[[nodiscard]] std::string summary_json(const ProcessGroup& group, const Launch& launch,
                                       const Outcome& outcome, const SummaryFacts& facts);

}  // namespace lockstep::train
