#pragma once
#include <cstdint>
#include <optional>

namespace lockstep::train {

/// Ends a training whose evaluation figure has not improved for `patience` epochs (0: never). An
/// improvement is more than `min_delta`; NaN never is one. All ranks see the same figures, so they
/// end together.
class EarlyStopping {
 public:
  EarlyStopping(std::int64_t patience, double min_delta, bool greater_is_better)
      : patience_(patience), min_delta_(min_delta), greater_is_better_(greater_is_better) {}

  /// Adds the figure of one more epoch.
  void see(double value);
  [[nodiscard]] bool is_over() const noexcept {
    return patience_ > 0 && epochs_without_ >= patience_;
  }

  /// State in checkpoints.
  [[nodiscard]] std::optional<double> best() const noexcept { return best_; }
  [[nodiscard]] std::int64_t epochs_without() const noexcept { return epochs_without_; }
  void restore(std::optional<double> best, std::int64_t epochs_without) {
    best_ = best;
    epochs_without_ = epochs_without;
  }

 private:
  std::int64_t patience_;
  double min_delta_;
  bool greater_is_better_;
  std::optional<double> best_;
  std::int64_t epochs_without_ = 0;  ///< epochs since the best one
};

}  // namespace lockstep::train
