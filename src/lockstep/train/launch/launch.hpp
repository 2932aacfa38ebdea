#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include <lockstep/comm/process_group.hpp>

namespace lockstep::train {

/// What the launch gave this rank.
struct Launch {
  std::string host;
  int ranks_on_host = 1;  ///< ranks of the group on this machine
  int ranks_on_mask = 1;  ///< of those, how many share this rank's set of cores (itself included)
  int cores_in_mask = 1;  ///< cores in this rank's affinity mask
  std::vector<std::string> hosts;  ///< distinct machines of the job, in rank order

  /// Cores this rank owns: its mask divided by the ranks that share it, at least 1.
  [[nodiscard]] int cores_owned() const { return std::max(1, cores_in_mask / ranks_on_mask); }
};

/// One thing about the launch that the user should know, with its remedy.
struct Finding {
  bool fatal = false;
  std::string sentence;
};

/// Looks at how the ranks were placed. Collective.
[[nodiscard]] Launch inspect_launch(ProcessGroup& group);

/// A world of one under a launcher that started several processes; more ranks than cores;
/// different programs, Lockstep versions or decks on the ranks. Collective; the same findings on
/// every rank. `deck_hash` may be empty.
[[nodiscard]] std::vector<Finding> check_launch(ProcessGroup& group, const Launch& launch,
                                                const std::string& deck_hash);

}  // namespace lockstep::train
