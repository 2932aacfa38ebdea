#include <lockstep/train/parts/early_stopping.hpp>

#include <cmath>

namespace lockstep::train {

void EarlyStopping::see(double value) {
  const bool better =
      !std::isnan(value) &&
      (!best_ || (greater_is_better_ ? value > *best_ + min_delta_ : value < *best_ - min_delta_));
  epochs_without_ = better ? 0 : epochs_without_ + 1;
  if (better) best_ = value;
}

}  // namespace lockstep::train
