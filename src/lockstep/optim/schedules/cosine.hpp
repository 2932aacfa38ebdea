#pragma once
#include <lockstep/optim/schedules/formula.hpp>

namespace lockstep::optim {

/// eta_min + (B - eta_min) (1 + cos(pi k / t_max)) / 2, rising again beyond t_max.
/// Source: Loshchilov, Hutter 2017 (arXiv:1608.03983).
struct CosineAnnealingLR {
  std::int64_t t_max = 100;  ///< units from the base rate down to eta_min
  double eta_min = 0.0;      ///< the lowest rate
  LinearWarmup warmup;

  void fit(const ScheduledRun&) const { expect_at_least("t_max", t_max, 1); }
  [[nodiscard]] double lr(double base_lr, std::int64_t k) const {
    return half_cosine(base_lr, eta_min, number(k) / number(t_max));
  }
};

inline void declare(DeckTable& table, CosineAnnealingLR& options) {
  table.key("t_max", options.t_max,
            {.doc = "units in which the rate falls from optimizer.lr to eta_min",
             .unit = unit_key,
             .min = 1});
  table.key("eta_min", options.eta_min, {.doc = "the lowest learning rate", .min = 0.0});
  declare(table, options.warmup);
}

}  // namespace lockstep::optim
