#pragma once
#include <cstdint>
#include <optional>

#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/report/step_clock.hpp>
#include <lockstep/train/training_part.hpp>

namespace lockstep::train {

class Console;

/// What a run says while it goes on: rows of metrics.jsonl, and lines on the console; and what of
/// it stands in its outcome.
class RunReport {
 public:
  /// All must live as long.
  RunReport(const Training& training, StepClock& clock, MetricsFile& metrics, Console& console);

  void start_epoch();
  /// After each step; every log.every_steps a row. Collective.
  void step(const StepResult& step);
  /// An epoch's steps are done, which is not counted yet; `loss_sum` is this rank's. Collective.
  [[nodiscard]] MetricsRow epoch(double loss_sum);
  /// The row of that epoch, and what its evaluation found, in so many seconds.
  void epoch_finished(const MetricsRow& row, const std::optional<Evaluation>& found,
                      double seconds);
  /// The test set, after the last epoch of a run that is judged by another.
  void tested(const Evaluation& found, double seconds);

  /// Of the run's end; `training_wall` is this rank's time in epochs' steps. Collective.
  void finish(double training_wall);
  [[nodiscard]] Outcome& outcome() noexcept { return outcome_; }

 private:
  /// Where the time went, on all ranks; the longest wall time of any. Collective.
  double add_times(MetricsRow& row, const StepTimes& mine) const;

  const Training& training_;
  StepClock& clock_;
  MetricsFile& metrics_;
  Console& console_;
  double peak_flops_ = 0;  ///< a rank's cores in products (product_speed); told on rank 0 alone
  StepTimes last_row_;     ///< clock at the last "step" row
  StepTimes epoch_start_;
  StepTimes first_step_;  ///< of this process: it sets libraries up
  Outcome outcome_;
};

}  // namespace lockstep::train
