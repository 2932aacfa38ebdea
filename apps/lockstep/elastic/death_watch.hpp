#pragma once
// Which of several processes ends first.
#include <map>
#include <optional>
#include <vector>

#include <lockstep/base/descriptor.hpp>

#include "run_view.hpp"

namespace lockstep::elastic {

/// Finds out which of a job's ranks on this machine ended first. A launcher ends the others within
/// milliseconds, and cannot be trusted to say who was first; on a busy machine one of those may
/// even be gone before the first is. So the kernel keeps the order in which they let go of their
/// rings (inotify), which a dying process does before it closes its connection to the launcher: of
/// 30 kills on two cores with 8 other busy processes and 12 ranks none was laid at the wrong door;
/// by who had ended first (pidfd) 3 of 36 were.
class DeathWatch {
 public:
  DeathWatch();

  /// Watches those too; again what is watched already.
  void add(const std::vector<RankProcess>& ranks);
  /// The rank whose process ended before all others; none where none has ended, and where several
  /// had before they were watched. Forgets what it has told.
  [[nodiscard]] std::optional<int> first();

 private:
  Descriptor events_;
  std::map<int, int> ranks_;  ///< by number of watch
  std::vector<int> gone_;     ///< before they were watched
};

}  // namespace lockstep::elastic
