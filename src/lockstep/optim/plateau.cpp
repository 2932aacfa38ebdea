#include <lockstep/optim/plateau.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/expect_hyper_parameter.hpp>

namespace lockstep::optim {

void declare(DeckTable& table, PlateauOptions& options) {
  table.key("metric", options.metric, {.doc = "figure of each epoch's evaluation that decides"});
  table.key("factor", options.factor,
            {.doc = "factor of each reduction", .min = 1e-6, .max = 0.999999});
  table.key("patience", options.patience,
            {.doc = "epochs without improvement before a reduction", .min = 0});
  table.key("threshold", options.threshold,
            {.doc = "smallest change that counts as an improvement", .min = 0.0});
  table.choice("threshold_mode", options.relative, {{"rel", true}, {"abs", false}},
               "whether threshold is relative to the best value or absolute");
  table.key("cooldown", options.cooldown,
            {.doc = "epochs after a reduction that do not count", .min = 0});
  table.key("min_lr", options.min_lr, {.doc = "lowest learning rate", .min = 0.0});
  declare(table, options.warmup);
}

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
  const double change = options_.greater_is_better ? options_.threshold : -options_.threshold;
  // As in PyTorch if the best figure is not negative; otherwise a share of its absolute value.
  const double share = best < 0.0 ? -change : change;
  const double limit = options_.relative ? best * (1.0 + share) : best + change;
  return options_.greater_is_better ? figure > limit : figure < limit;
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
