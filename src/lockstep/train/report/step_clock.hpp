#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/trace.hpp>

namespace lockstep {
class ProcessGroup;
}

namespace lockstep::train {

/// A rank's seconds over some steps, by phase.
struct StepTimes {
  /// The rank's own work: forward, backward, optimizer (with clipping) and the little between.
  double compute = 0;
  double forward = 0, backward = 0, optimizer = 0;  ///< parts of compute
  /// Waiting for gradients (exposed communication).
  double communication = 0;
  double communication_work = 0;  ///< of it: the rank's own work (sums in shared memory)
  double communication_late = 0;  ///< of it: until the last rank had entered (stragglers)
  double data = 0;                ///< waiting for the loader
  double wall = 0;                ///< including logging and checkpoints
  /// FLOPs of the model: three times those of the forward products of the rank's samples
  /// (FlopCounter), since backward has two per product. Recomputation to save memory is not
  /// counted.
  double flops = 0;
  double nominal_flops = 0;  ///< of flops: FlopCounter::nominal_flops, likewise three times
  std::int64_t samples = 0;  ///< samples of all ranks
  std::int64_t steps = 0;

  [[nodiscard]] double other() const;
  /// The rest of communication: the others' work, and transfer.
  [[nodiscard]] double communication_transfer() const;
};

/// later - earlier, field by field.
[[nodiscard]] StepTimes operator-(const StepTimes& later, const StepTimes& earlier);

/// Accumulates a rank's training time by phase.
class StepClock {
 public:
  /// Times a phase of a step while it lives: adds its seconds to `total`, and traces it.
  class Phase {
   public:
    Phase(double& total, const char* name)
        : scope_("step", name), total_(total), start_(Clock::now()) {}
    ~Phase() { total_ += seconds_since(start_); }
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    TraceScope scope_;
    double& total_;
    Clock::time_point start_;
  };

  void start();
  /// Times one step: its whole duration, and its phases; `compute` is the rest.
  void add_step(double seconds, const StepTimes& parts);
  /// Since start().
  [[nodiscard]] StepTimes totals() const;

 private:
  Clock::time_point started_ = Clock::now();
  StepTimes totals_;
};

/// All ranks' times, in rank order. Collective.
[[nodiscard]] std::vector<StepTimes> times_of_all(ProcessGroup& group, const StepTimes& mine);

/// Smallest, mean and largest value over the ranks.
struct Spread {
  double min = 0, mean = 0, max = 0;
};
/// Statistics of one figure; `ranks` is not empty.
[[nodiscard]] Spread spread_of(std::span<const StepTimes> ranks,
                               const std::function<double(const StepTimes&)>& value);

/// Seconds, over the ranks; see StepTimes.
struct TimeSplit {
  Spread compute, communication, data, other;
  Spread communication_work, communication_late;
  Spread forward, backward, optimizer;
};
[[nodiscard]] TimeSplit spread_over_ranks(std::span<const StepTimes> ranks);

/// The rank that the others wait for, and the phase responsible.
struct Slowest {
  /// Smallest ratio for which a rank counts as slowest: below it the others' wait is less than a
  /// tenth of their own time.
  static constexpr double least_ratio = 1.1;

  /// Share of a step that a median must exceed to be compared with: of almost nothing, anything is
  /// many times as much.
  static constexpr double least_share = 0.01;

  int rank = 0;
  std::string phase;  ///< "forward", "backward", "optimizer" or "data"
  /// Ratio of its seconds in the phase to the ranks' median; not a number where that is below
  /// least_share.
  double ratio = 1;
  double seconds = 0;  ///< its seconds per step in the phase
  double median_seconds =
      0;  ///< the same, median of all ranks; for an even number the lower middle value

  /// "rank 3 is slowest: 1.4 times the median in backward (12.1 against 8.6 ms a step)".
  [[nodiscard]] std::string text() const;
};

/// The rank with the longest own time (without waiting for others), if that is least_ratio times
/// the median; the phase is the one with the largest delay. Nothing for one rank.
[[nodiscard]] std::optional<Slowest> slowest_rank(std::span<const StepTimes> ranks);

}  // namespace lockstep::train
