#pragma once
// Which of several processes ends first.
#include <optional>
#include <thread>
#include <vector>

#include "run_view.hpp"

namespace lockstep::elastic {

/// Waits for the end of the first of a job's ranks on this machine. A launcher ends the others
/// within milliseconds, and cannot be trusted to say who was first: so a thread sleeps on all of
/// them.
class DeathWatch {
 public:
  explicit DeathWatch(const std::vector<RankProcess>& ranks);
  ~DeathWatch();
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

  /// The rank, if one process has ended before all others; none also where several had by the time
  /// that anybody could look. Ends the watch.
  [[nodiscard]] std::optional<int> first();

 private:
  void watch();

  std::vector<RankProcess> ranks_;
  std::vector<int> processes_;  ///< file descriptors of theirs; -1 for those that were gone
  std::vector<int> ended_;      ///< ranks, at the first look that found any
  int wake_ = -1;
  std::thread thread_;
};

}  // namespace lockstep::elastic
