#pragma once
#include <lockstep/optim/schedules/formula.hpp>

namespace lockstep::optim {

/// CosineAnnealingLR of the units since the last restart, in place of t_max the units between two
/// restarts, t_0 t_mult^n. Source: Loshchilov, Hutter 2017 (arXiv:1608.03983).
struct CosineAnnealingWarmRestarts {
  std::int64_t t_0 = 10;    ///< units up to the first restart
  std::int64_t t_mult = 1;  ///< factor by which each cycle is longer than the one before
  double eta_min = 0.0;     ///< the lowest rate
  LinearWarmup warmup;

  void fit(const ScheduledRun&) const {
    expect_at_least("t_0", t_0, 1);
    expect_at_least("t_mult", t_mult, 1);
  }
  [[nodiscard]] double lr(double base_lr, std::int64_t k) const {
    std::int64_t length = t_0;
    if (t_mult == 1) k %= length;
    for (; k >= length; length *= t_mult) k -= length;
    return half_cosine(base_lr, eta_min, number(k) / number(length));
  }
};

inline void declare(DeckTable& table, CosineAnnealingWarmRestarts& options) {
  table.key("t_0", options.t_0,
            {.doc = "units up to the first restart", .unit = unit_key, .min = 1});
  table.key("t_mult", options.t_mult,
            {.doc = "factor by which each cycle is longer than the one before", .min = 1});
  table.key("eta_min", options.eta_min, {.doc = "the lowest learning rate", .min = 0.0});
  declare(table, options.warmup);
}

}  // namespace lockstep::optim
