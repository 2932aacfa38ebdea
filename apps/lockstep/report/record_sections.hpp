#pragma once
// Contents of run folders other than metrics, as sections of a page.
#include <string>
#include <vector>

#include "page.hpp"
#include "run_record.hpp"

namespace lockstep::report {

/// A figure or word of summary.json, for people; empty if there is none.
[[nodiscard]] std::string figure_of(const RunRecord& run, const std::string& key);

/// Adds memory, checkpoints and restarts, decks and their differences, versions.
void add_records(Page& page, const std::vector<const RunRecord*>& runs);

}  // namespace lockstep::report
