#pragma once
#include <string>
#include <utility>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/launch/launch.hpp>
#include <lockstep/train/task/outcome.hpp>

namespace lockstep::train {

/// What summary.json tells beside the outcome.
struct SummaryFacts {
  std::string app;
  std::string deck_hash;
  std::int64_t seed = 0;
  int threads = 1;
  double wall_s = 0;                       ///< of the process, from its start
  std::vector<std::int64_t> peak_rss_mib;  ///< by rank
  std::vector<std::pair<std::string, std::string>> libraries;
  bool completed = false;  ///< every epoch was trained and the last checkpoint saved
};

/// Largest resident memory of every rank so far, in MiB. Collective.
[[nodiscard]] std::vector<std::int64_t> peak_rss_mib(ProcessGroup& group);

/// summary.json.
[[nodiscard]] std::string summary_json(const ProcessGroup& group, const Launch& launch,
                                       const Outcome& outcome, const SummaryFacts& facts);

}  // namespace lockstep::train
