#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/optim/schedule.hpp>

namespace lockstep::optim {

/// torch.optim.lr_scheduler.ReduceLROnPlateau's options and defaults. It differs from PyTorch for a
/// negative best value: PyTorch's relative threshold then has the wrong sign, so an unchanged value
/// counts as better and the rate is never reduced.
struct PlateauOptions {
  bool greater_is_better = false;  ///< mode="max"
  double factor = 0.1;             ///< of each fall, above 0 and below 1
  std::int64_t patience = 10;      ///< epochs without improvement before the rate is reduced
  double threshold = 1e-4;         ///< smallest change that counts as an improvement
  /// Threshold is a share of the best figure's absolute value, else an amount. PyTorch takes a
  /// fraction of the best value itself: for a negative one, e.g. a log-likelihood, a slightly worse
  /// value then counts as better, and the rate is never reduced.
  bool relative = true;
  std::int64_t cooldown = 0;  ///< epochs after a reduction that are not counted
  double min_lr = 0.0;
  std::string metric = "loss";  ///< which figure of the evaluations
  LinearWarmup warmup;

  /// As a schedule: of the rate that ReduceLROnPlateau tells.
  [[nodiscard]] double lr(double base_lr, std::int64_t /*k*/) const { return base_lr; }
};
/// The keys except greater_is_better, which the metric defines.
void declare(DeckTable& table, PlateauOptions& options);

/// Reduces the learning rate when a metric has stopped improving. Unlike the schedules it depends
/// on observed values, so checkpoints keep its state. The same figures give the same rate on every
/// rank.
class ReduceLROnPlateau {
 public:
  /// All that a checkpoint must hold to continue the schedule.
  struct State {
    double lr = 0.0;
    std::optional<double> best;
    std::int64_t bad_epochs = 0, cooldown = 0;
    friend bool operator==(const State&, const State&) = default;
  };

  /// Throws InputError for options out of range.
  ReduceLROnPlateau(const PlateauOptions& options, double lr);

  /// The figure of one more epoch; NaN is never better.
  void step(double figure);
  /// The rate that holds now.
  [[nodiscard]] double lr() const noexcept { return state_.lr; }

  [[nodiscard]] const State& state() const noexcept { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  [[nodiscard]] bool is_better(double figure) const;

  PlateauOptions options_;
  State state_;
};

}  // namespace lockstep::optim
