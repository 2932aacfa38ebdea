#pragma once
#include <lockstep/optim/schedules/formula.hpp>

namespace lockstep::optim {

/// B gamma^k.
struct ExponentialLR {
  double gamma = 0.1;  ///< factor per unit
  LinearWarmup warmup;

  [[nodiscard]] double lr(double base_lr, std::int64_t k) const {
    return base_lr * std::pow(gamma, number(k));
  }
};

inline void declare(DeckTable& table, ExponentialLR& options) {
  table.key("gamma", options.gamma, {.doc = "factor per unit", .min = 0.0, .above_min = true});
  declare(table, options.warmup);
}

}  // namespace lockstep::optim
