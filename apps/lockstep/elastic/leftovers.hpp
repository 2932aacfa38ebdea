#pragma once
// Processes of this run that a supervisor left behind when it was killed.
#include <filesystem>
#include <vector>

#include "child.hpp"

namespace lockstep::elastic {

/// What tells the processes of a supervisor of `run_dir` from all others: a variable that what it
/// starts inherits, launcher and ranks alike.
[[nodiscard]] Environment mark_of_this_supervisor(const std::filesystem::path& run_dir);

/// Processes on this machine that a supervisor of `run_dir` started which is no longer there. Of a
/// supervisor that lives: none. Another user's cannot be seen.
[[nodiscard]] std::vector<int> leftovers(const std::filesystem::path& run_dir);

}  // namespace lockstep::elastic
