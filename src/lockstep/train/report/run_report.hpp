#pragma once
#include <cstdint>
#include <optional>

#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/report/step_clock.hpp>
#include <lockstep/train/training_part.hpp>

namespace lockstep::train {

class Console;

/// Messages of a run while it goes on: rows of metrics.jsonl and lines on the console; and the
/// figures that become part of its outcome.
class RunReport {
 public:
  /// All arguments must outlive this.
  RunReport(const Training& training, const TrainingParts& parts, StepClock& clock,
            MetricsFile& metrics, Console& console);

  void start_epoch();
  /// After each step; every log.every_steps a row. Collective.
  void step(const StepResult& step);
  /// After the steps of an epoch, before it is counted as finished; `loss_sum` is this rank's.
  /// Collective.
  [[nodiscard]] MetricsRow epoch(double loss_sum);
  /// Writes the row of that epoch, and its evaluation, which took so many seconds.
  void epoch_finished(const MetricsRow& row, const std::optional<Evaluation>& found,
                      double seconds);
  /// Another evaluation: of the test set after the last epoch, where another set judges the run; of
  /// the judging set ("validation" or "test") in the middle of an epoch, or at a resumed run's
  /// begin, where the run had been stopped in it.
  void evaluated(const char* set, const Evaluation& found, double seconds);

  /// At the run's end; `training_wall` is this rank's time in training steps. Collective.
  void finish(double training_wall);
  [[nodiscard]] Outcome& outcome() noexcept { return outcome_; }

 private:
  /// Writes this rank's own times to its log (log.ranks).
  void note(const StepTimes& mine) const;
  /// Times of all ranks; the longest wall time of any. Collective.
  double add_times(MetricsRow& row, const StepTimes& mine) const;

  /// Writes a row, and tells the parts.
  void write(const MetricsRow& row);

  const Training& training_;
  const TrainingParts& parts_;
  StepClock& clock_;
  MetricsFile& metrics_;
  Console& console_;
  double peak_flops_ = 0;  ///< a rank's speed in products (product_speed); on rank 0 only
  StepTimes last_row_;     ///< clock at the last "step" row
  StepTimes epoch_start_;
  StepTimes first_step_;  ///< first step of this process: it sets libraries up
  Outcome outcome_;
};

}  // namespace lockstep::train
