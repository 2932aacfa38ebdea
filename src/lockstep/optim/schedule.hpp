#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {
class DeckTable;
}

namespace lockstep::optim {

class Optimizer;

/// The unit that a schedule counts: PyTorch's scripts step their scheduler each epoch.
enum class ScheduleUnit : std::uint8_t { epoch, step };

/// The run that a schedule must fit.
struct ScheduledRun {
  std::int64_t length = 0;  ///< in units
  ScheduleUnit unit = ScheduleUnit::epoch;

  [[nodiscard]] const char* unit_name() const noexcept {
    return unit == ScheduleUnit::epoch ? "epoch" : "step";
  }
};

/// PyTorch's SequentialLR with LinearLR: with B = base_lr, W = units and s = start_factor the rate
/// is B (s + (1 - s) k / W) for k < W, then the schedule's of k - W.
struct LinearWarmup {
  std::int64_t units = 0;  ///< 0: none
  double start_factor = 1.0 / 3.0;
};
/// The keys `warmup` and `start_factor`.
void declare(DeckTable& table, LinearWarmup& warmup);

/// How the learning rate moves in one run: a pure function of the finished units k >= 0, so that a
/// resumed run needs no schedule state.
class Schedule {
 public:
  /// Throws InputError for a warm-up that is longer than the run.
  Schedule(const ScheduledRun& run, const LinearWarmup& warmup);
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  virtual ~Schedule() = default;

  [[nodiscard]] double lr(double base_lr, std::int64_t k) const;
  /// If the schedule moves it.
  [[nodiscard]] std::optional<double> momentum(std::int64_t k) const;
  /// Why a schedule by steps leaves the rate as it is in the whole run; empty if it does not.
  [[nodiscard]] std::string why_rate_never_falls() const;
  [[nodiscard]] const ScheduledRun& run() const noexcept { return run_; }

 protected:
  /// The first reduction of the rate: its deck key, and the number of units before it.
  using Fall = std::pair<const char*, std::int64_t>;

 private:
  // Behind the warm-up.
  [[nodiscard]] virtual double own_lr(double base_lr, std::int64_t k) const = 0;
  [[nodiscard]] virtual std::optional<double> own_momentum(std::int64_t k) const = 0;
  [[nodiscard]] virtual std::optional<Fall> first_fall() const = 0;

  ScheduledRun run_;
  LinearWarmup warmup_;
};

/// Sets `optimizer`'s rate, and the momentum if the schedule changes it, for the step that follows
/// `epochs` finished epochs and `steps` finished optimizer steps (over all epochs): k is the one of
/// the two that the schedule counts. Throws InputError if the schedule moves a momentum that the
/// optimizer does not have.
void apply_schedule(const Schedule& schedule, double base_lr, std::int64_t epochs,
                    std::int64_t steps, Optimizer& optimizer);

}  // namespace lockstep::optim
