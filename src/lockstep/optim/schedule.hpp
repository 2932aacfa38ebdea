#pragma once
#include <cstdint>

namespace lockstep {
class DeckTable;
}

namespace lockstep::optim {

/// How the learning rate falls: PyTorch's StepLR and CosineAnnealingLR.
struct ScheduleOptions {
  enum class Kind : std::uint8_t { constant, step, cosine };
  enum class Unit : std::uint8_t { epoch, step };

  Kind kind = Kind::constant;
  Unit unit = Unit::epoch;  ///< what k counts: PyTorch's scripts step their scheduler each epoch
  std::int64_t step_size = 30;  ///< step: units between two falls
  double gamma = 0.1;           ///< step: factor of each fall
  std::int64_t t_max = 100;     ///< cosine: units from the base rate down to eta_min
  double eta_min = 0.0;         ///< cosine: the lowest rate
};
void declare(DeckTable& table, ScheduleOptions& options);

/// The rate after `k` finished units, k >= 0, a pure function, so that a resumed run needs no
/// schedule state (B = base_lr):
///   constant  B
///   step      B gamma^floor(k / step_size)
///   cosine    eta_min + (B - eta_min) (1 + cos(pi k / t_max)) / 2, rising again beyond t_max
[[nodiscard]] double scheduled_lr(const ScheduleOptions& options, double base_lr, std::int64_t k);

/// The rate of the step that follows `epochs` finished epochs and `steps` finished optimizer steps
/// (all epochs together): whichever of the two options.unit names is k.
[[nodiscard]] double scheduled_lr(const ScheduleOptions& options, double base_lr,
                                  std::int64_t epochs, std::int64_t steps);

}  // namespace lockstep::optim
