#pragma once
#include <utility>

#include <lockstep/optim/schedules/formula.hpp>

namespace lockstep::optim {

/// B gamma^floor(k / step_size).
struct StepLR {
  std::int64_t step_size = 30;  ///< units between two reductions
  double gamma = 0.1;           ///< factor of each reduction
  LinearWarmup warmup;

  void fit(const ScheduledRun&) const { expect_at_least("step_size", step_size, 1); }
  [[nodiscard]] double lr(double base_lr, std::int64_t k) const {
    return base_lr * std::pow(gamma, number(k / step_size));
  }
  [[nodiscard]] std::pair<const char*, std::int64_t> first_fall() const {
    return {"schedule.step_size", step_size};
  }
};

inline void declare(DeckTable& table, StepLR& options) {
  table.key("step_size", options.step_size,
            {.doc = "units between two reductions", .unit = unit_key, .min = 1});
  table.key("gamma", options.gamma,
            {.doc = "factor of each reduction", .min = 0.0, .above_min = true});
  declare(table, options.warmup);
}

}  // namespace lockstep::optim
