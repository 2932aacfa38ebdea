#pragma once
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include <lockstep/optim/schedules/formula.hpp>

namespace lockstep::optim {

/// B gamma^(number of milestones <= k).
struct MultiStepLR {
  std::vector<std::int64_t> milestones;  ///< units after which the rate is reduced, ascending
  double gamma = 0.1;                    ///< factor of each reduction
  LinearWarmup warmup;

  void fit(const ScheduledRun&) const {
    if (milestones.empty())
      refuse_schedule("kind = \"multistep\" needs milestones, such as [10, 20].");
    if (std::ranges::adjacent_find(milestones, std::greater_equal{}) == milestones.end()) return;
    std::string list;
    for (const auto milestone : milestones)
      list += (list.empty() ? "" : ", ") + std::to_string(milestone);
    refuse_schedule("milestones = [" + list + "] must ascend.");
  }
  [[nodiscard]] double lr(double base_lr, std::int64_t k) const {
    return base_lr *
           std::pow(gamma, number(std::ranges::upper_bound(milestones, k) - milestones.begin()));
  }
  [[nodiscard]] std::pair<const char*, std::int64_t> first_fall() const {
    return {"the first of schedule.milestones", milestones.front()};
  }
};

inline void declare(DeckTable& table, MultiStepLR& options) {
  table.key(
      "milestones", options.milestones,
      {.doc = "units after which the rate is reduced, ascending", .unit = unit_key, .min = 1});
  table.key("gamma", options.gamma,
            {.doc = "factor of each reduction", .min = 0.0, .above_min = true});
  declare(table, options.warmup);
}

}  // namespace lockstep::optim
