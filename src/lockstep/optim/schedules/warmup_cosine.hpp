#pragma once
#include <algorithm>

#include <lockstep/optim/schedules/formula.hpp>

namespace lockstep::optim {

/// With W = warmup, T = total, f = min_factor: B (k + 1) / W for k < W, then
/// B (f + (1 - f) (1 + cos(pi (k - W) / (T - W))) / 2), which stays at its last value beyond T.
struct WarmupCosine {
  std::int64_t warmup = 0;  ///< units of linear warm-up, part of the total
  std::int64_t total = 0;   ///< 0: the whole run
  double min_factor = 0.0;  ///< last rate over the base rate

  void fit(const ScheduledRun& run) {
    if (total == 0) total = run.length;
    if (warmup < total) return;
    refuse_schedule("warmup = " + std::to_string(warmup) + " must be shorter than the total of " +
                    std::to_string(total) + " " + run.unit_name() +
                    "s. Lower warmup, train longer, or set total.");
  }
  [[nodiscard]] double lr(double base_lr, std::int64_t k) const {
    if (k < warmup) return base_lr * number(k + 1) / number(warmup);
    const double x = number(std::min(k, total) - warmup) / number(total - warmup);
    return half_cosine(base_lr, base_lr * min_factor, x);
  }
};

inline void declare(DeckTable& table, WarmupCosine& options) {
  table.key("warmup", options.warmup,
            {.doc = "units of linear warm-up, part of the total", .unit = unit_key, .min = 0});
  table.key(
      "total", options.total,
      {.doc = "units of the whole schedule; 0: of the whole run", .unit = unit_key, .min = 0});
  table.key("min_factor", options.min_factor,
            {.doc = "last rate relative to optimizer.lr", .min = 0.0, .max = 1.0});
}

}  // namespace lockstep::optim
