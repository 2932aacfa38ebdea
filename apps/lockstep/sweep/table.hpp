#pragma once
#include <string>
#include <vector>

#include "trial.hpp"

namespace lockstep::sweep {

/// Indices of all trials as a table shows them: those that came furthest first, of these the best
/// first; then those without a metric.
[[nodiscard]] std::vector<std::size_t> ranking(const std::vector<Trial>& trials, Better better);

/// A line a trial. `rungs`: of a sweep; 1 without halving.
[[nodiscard]] std::string table(const std::vector<Trial>& trials, const std::string& metric,
                                Better better, std::size_t rungs);

}  // namespace lockstep::sweep
