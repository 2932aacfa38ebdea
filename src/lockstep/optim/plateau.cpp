#include <lockstep/optim/plateau.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/expect_hyper_parameter.hpp>

namespace lockstep::optim {

ReduceLROnPlateau::ReduceLROnPlateau(const PlateauOptions& options, double lr)
    : options_(options), state_{lr, std::nullopt, 0, 0} {
  if (!(options.factor > 0.0 && options.factor < 1.0)) {
    throw InputError(fmt::format("ReduceLROnPlateau's factor must be above 0 and below 1, not {}",
                                 options.factor));
  }
  for (const auto& [name, value] : {std::pair{"patience", static_cast<double>(options.patience)},
                                    {"threshold", options.threshold},
                                    {"cooldown", static_cast<double>(options.cooldown)},
                                    {"min_lr", options.min_lr}}) {
    expect_not_negative("ReduceLROnPlateau", name, value);
  }
}

bool ReduceLROnPlateau::is_better(double figure) const {
  if (std::isnan(figure)) return false;
  if (!state_.best) return true;
  const double best = *state_.best;
  const double size = options_.relative && std::isfinite(best) ? std::abs(best) : 1.0;
  const double margin = options_.threshold * size;
  return options_.greater_is_better ? figure > best + margin : figure < best - margin;
}

void ReduceLROnPlateau::step(double figure) {
  if (is_better(figure)) {
    state_.best = figure;
    state_.bad_epochs = 0;
  } else {
    ++state_.bad_epochs;
  }
  if (state_.cooldown > 0) {
    --state_.cooldown;
    state_.bad_epochs = 0;
  }
  if (state_.bad_epochs <= options_.patience) return;
  constexpr double smallest_fall = 1e-8;  // PyTorch's eps
  const double lower = std::max(state_.lr * options_.factor, options_.min_lr);
  if (state_.lr - lower > smallest_fall) state_.lr = lower;
  state_.cooldown = options_.cooldown;
  state_.bad_epochs = 0;
}

}  // namespace lockstep::optim
