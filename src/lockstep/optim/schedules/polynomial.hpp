#pragma once
#include <algorithm>

#include <lockstep/optim/schedules/formula.hpp>

namespace lockstep::optim {

/// B (1 - k / total)^power up to the total, then 0.
struct PolynomialLR {
  double power = 1.0;
  std::int64_t total = 0;  ///< units of the fall; 0: all of the run behind the warm-up
  LinearWarmup warmup;

  void fit(const ScheduledRun& run) {
    if (total == 0) total = run.length - warmup.units;
    if (total >= 1) return;
    refuse_schedule(
        "warmup = " + std::to_string(warmup.units) +
        " leaves no part of the run for the polynomial. Lower warmup, or train longer.");
  }
  [[nodiscard]] double lr(double base_lr, std::int64_t k) const {
    return base_lr * std::pow(1.0 - number(std::min(k, total)) / number(total), power);
  }
};

inline void declare(DeckTable& table, PolynomialLR& options) {
  table.key("power", options.power, {.doc = "of what is left", .min = 0.0});
  table.key("total", options.total,
            {.doc = "units of the decay after the warm-up; 0: the rest of the run",
             .unit = unit_key,
             .min = 0});
  declare(table, options.warmup);
}

}  // namespace lockstep::optim
