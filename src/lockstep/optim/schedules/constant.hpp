#pragma once
#include <lockstep/optim/schedules/formula.hpp>

namespace lockstep::optim {

/// B.
struct ConstantRate {
  LinearWarmup warmup;

  [[nodiscard]] double lr(double base_lr, std::int64_t /*k*/) const { return base_lr; }
};

inline void declare(DeckTable& table, ConstantRate& options) { declare(table, options.warmup); }

}  // namespace lockstep::optim
