#pragma once
// Runs as sections of a page: several are overlaid.
#include <string>
#include <vector>

#include "curves.hpp"
#include "page.hpp"
#include "run_record.hpp"

namespace lockstep::report {

struct Run {
  RunRecord record;
  Curves curves;
};

/// Reads a folder's run. Throws InputError as read_run() does.
[[nodiscard]] Run read_whole_run(const std::filesystem::path& folder);

/// Adds their sections, and notes on missing files and on runs that cannot be compared.
void add_runs(Page& page, const std::vector<Run>& runs);

}  // namespace lockstep::report
