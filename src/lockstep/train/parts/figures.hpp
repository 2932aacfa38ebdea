#pragma once
#include <algorithm>
#include <string>
#include <utility>

#include <lockstep/train/task/outcome.hpp>

namespace lockstep::train {

/// The loss, or the metric with that name, which must exist (checked by greater_is_better()).
[[nodiscard]] inline double figure_named(const Evaluation& found, const std::string& name) {
  const auto at = std::ranges::find(found.metrics, name, &std::pair<std::string, double>::first);
  return at == found.metrics.end() ? found.loss : at->second;
}

}  // namespace lockstep::train
