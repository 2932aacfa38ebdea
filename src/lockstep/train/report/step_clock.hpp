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

/// Where a rank's seconds of a stretch of steps went, and for what.
struct StepTimes {
  /// The rank's own work: forward, backward, optimizer (clipping included) and the little between.
  double compute = 0;
  double forward = 0, backward = 0, optimizer = 0;  ///< of compute
  /// Waiting for gradients (exposed communication).
  double communication = 0;
  double communication_work = 0;  ///< of it: the rank's own part (summing in shared memory)
  double communication_late = 0;  ///< of it: until the last rank had entered (stragglers)
  double data = 0;                ///< waiting for the loader
  double wall = 0;                ///< with logging, checkpoints and everything else
  /// The model's: three times those of the forward products of the rank's samples (FlopCounter),
  /// for a product has two in backward. What is computed a second time to save memory is left out.
  double flops = 0;
  double nominal_flops = 0;  ///< of flops: FlopCounter::nominal_flops, likewise three times
  std::int64_t samples = 0;  ///< of all ranks
  std::int64_t steps = 0;

  [[nodiscard]] double other() const;
  /// The rest of communication: the others' parts, and transfer.
  [[nodiscard]] double communication_transfer() const;
};

/// later - earlier, part by part.
[[nodiscard]] StepTimes operator-(const StepTimes& later, const StepTimes& earlier);

/// Adds up where a rank's training time goes.
class StepClock {
 public:
  /// While it lives, a phase of a step: its seconds are added to `total`, and it is traced.
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
  /// One step: its whole duration, and its parts; `compute` is what they leave.
  void add_step(double seconds, const StepTimes& parts);
  /// Since start().
  [[nodiscard]] StepTimes totals() const;

 private:
  Clock::time_point started_ = Clock::now();
  StepTimes totals_;
};

/// Every rank's, in rank order. Collective.
[[nodiscard]] std::vector<StepTimes> times_of_all(ProcessGroup& group, const StepTimes& mine);

/// Smallest, mean and largest value over the ranks.
struct Spread {
  double min = 0, mean = 0, max = 0;
};
/// Of one figure; `ranks` is not empty.
[[nodiscard]] Spread spread_of(std::span<const StepTimes> ranks,
                               const std::function<double(const StepTimes&)>& value);

/// Seconds, over the ranks; see StepTimes.
struct TimeSplit {
  Spread compute, communication, data, other;
  Spread communication_work, communication_late;
  Spread forward, backward, optimizer;
};
[[nodiscard]] TimeSplit spread_over_ranks(std::span<const StepTimes> ranks);

/// The rank that the others wait for, and the phase that makes it so.
struct Slowest {
  /// A rank counts as slowest from this ratio on: below it, the others cannot wait for it longer
  /// than a tenth of their own time.
  static constexpr double least_ratio = 1.1;

  int rank = 0;
  std::string phase;          ///< "forward", "backward", "optimizer" or "data"
  double ratio = 1;           ///< of its seconds in the phase to the ranks' median
  double seconds = 0;         ///< its, in the phase, a step
  double median_seconds = 0;  ///< of all ranks, likewise; of an even number, the lower of two

  /// "rank 3 is slowest: 1.4 times the median in backward (12.1 against 8.6 ms a step)".
  [[nodiscard]] std::string text() const;
};

/// The rank whose own time (what it does not wait for others) is longest, if that is least_ratio
/// times the median; the phase is the one in which it is most behind. Nothing for one rank.
[[nodiscard]] std::optional<Slowest> slowest_rank(std::span<const StepTimes> ranks);

}  // namespace lockstep::train
