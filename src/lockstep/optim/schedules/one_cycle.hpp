#pragma once
#include <algorithm>
#include <optional>

#include <lockstep/optim/schedules/formula.hpp>

namespace lockstep::optim {

/// OneCycleLR with cosine annealing. With c(a, b, x) = b + (a - b) (1 + cos(pi x)) / 2 and
/// u = pct_start total - 1:
///   c(B / div_factor, B, k / u) for k <= u, then
///   c(B, B / div_factor / final_div_factor, (k - u) / (total - 1 - u)),
/// which stays at its last value beyond total - 1. The momentum goes from max_momentum to
/// base_momentum and back over the same intervals. Source: Smith, Topin 2018 (arXiv:1708.07120).
struct OneCycleLR {
  std::int64_t total = 0;         ///< units; 0: the whole run
  double pct_start = 0.3;         ///< share of the total in which the rate rises
  double div_factor = 25.0;       ///< base rate, the highest, over the first rate
  double final_div_factor = 1e4;  ///< first rate relative to the last rate
  bool cycle_momentum = true;     ///< move the momentum against the rate
  double base_momentum = 0.85;    ///< momentum at the highest rate
  double max_momentum = 0.95;     ///< momentum at the lowest rate

  void fit(const ScheduledRun& run) {
    if (total == 0) total = run.length;
    // Of the peak's place, pct_start * total - 1, both sides must hold something.
    const double rising = pct_start * number(total);
    if (rising > 1.0 && rising < number(total)) return;
    refuse_schedule("one_cycle over " + std::to_string(total) + " " + run.unit_name() +
                    "s with pct_start = " + text_of(pct_start) +
                    " leaves no units to rise and fall: pct_start * total must be above 1 and "
                    "pct_start below 1. Count steps with unit = \"step\", train longer, or set "
                    "pct_start.");
  }
  [[nodiscard]] double lr(double base_lr, std::int64_t k) const {
    const double first = base_lr / div_factor;
    return cycled(first, base_lr, first / final_div_factor, k);
  }
  [[nodiscard]] std::optional<double> momentum(std::int64_t k) const {
    if (!cycle_momentum) return std::nullopt;
    return cycled(max_momentum, base_momentum, max_momentum, k);
  }

 private:
  /// A value that goes from `first` to `middle` while the rate rises, and on to `last` while it
  /// falls.
  [[nodiscard]] double cycled(double first, double middle, double last, std::int64_t k) const {
    const double peak = pct_start * number(total) - 1.0, end = number(total) - 1.0;
    const double at = std::min(number(k), end);
    if (at <= peak) return half_cosine(first, middle, at / peak);
    return half_cosine(middle, last, (at - peak) / (end - peak));
  }
};

inline void declare(DeckTable& table, OneCycleLR& options) {
  table.key(
      "total", options.total,
      {.doc = "units of the whole schedule; 0: of the whole run", .unit = unit_key, .min = 0});
  table.key("pct_start", options.pct_start,
            {.doc = "share of the total in which the rate rises",
             .min = 0.0,
             .max = 1.0,
             .above_min = true});
  table.key("div_factor", options.div_factor,
            {.doc = "optimizer.lr (the highest rate) relative to the first rate", .min = 1.0});
  table.key("final_div_factor", options.final_div_factor,
            {.doc = "first rate relative to the last", .min = 1.0});
  declare_cycle_of_momentum(table, options);
}

}  // namespace lockstep::optim
