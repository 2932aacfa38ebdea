#include <lockstep/optim/schedule.hpp>

#include <cmath>
#include <numbers>

namespace lockstep::optim {

double scheduled_lr(const ScheduleOptions& options, double base_lr, std::int64_t k) {
  switch (options.kind) {
    case ScheduleOptions::Kind::constant:
      return base_lr;
    case ScheduleOptions::Kind::step: {
      const std::int64_t falls = k / options.step_size;
      return base_lr * std::pow(options.gamma, static_cast<double>(falls));
    }
    case ScheduleOptions::Kind::cosine: {
      const double angle =
          std::numbers::pi * static_cast<double>(k) / static_cast<double>(options.t_max);
      return options.eta_min + (base_lr - options.eta_min) * (1.0 + std::cos(angle)) / 2.0;
    }
  }
  return base_lr;
}

double scheduled_lr(const ScheduleOptions& options, double base_lr, std::int64_t epochs,
                    std::int64_t steps) {
  return scheduled_lr(options, base_lr,
                      options.unit == ScheduleOptions::Unit::epoch ? epochs : steps);
}

}  // namespace lockstep::optim
