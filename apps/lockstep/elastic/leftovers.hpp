#pragma once
// Processes left behind by a killed supervisor of this run.
#include <filesystem>
#include <vector>

#include "child.hpp"

namespace lockstep::elastic {

/// The environment variable that marks the processes of a supervisor of `run_dir`; launcher and
/// ranks inherit it.
[[nodiscard]] Environment mark_of_this_supervisor(const std::filesystem::path& run_dir);

/// Processes on this machine whose supervisor ran `run_dir` and has ended. Processes of a living
/// supervisor are left out. Those of other users cannot be seen.
[[nodiscard]] std::vector<int> leftovers(const std::filesystem::path& run_dir);

}  // namespace lockstep::elastic
