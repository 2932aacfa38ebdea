#pragma once
#include <lockstep/base/clock.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::train {

/// Smallest, mean and largest value over the ranks.
struct Spread {
  double min = 0, mean = 0, max = 0;
};

/// Where the seconds of a stretch of steps went, over the ranks.
struct TimeSplit {
  Spread compute;        ///< forward, backward, optimizer
  Spread communication;  ///< waiting for gradients (exposed communication)
  Spread data;           ///< waiting for the loader
  Spread other;          ///< logging, checkpoints, everything else
  /// Of communication: the rank's own part (summing in shared memory), not waiting for others.
  Spread communication_work;
};

/// Adds up where a rank's training time goes, and compares the ranks.
class StepClock {
 public:
  struct Totals {
    double compute = 0, communication = 0, data = 0;  ///< seconds
    double communication_work = 0;                    ///< seconds, of communication
    double wall = 0;                                  ///< since the clock started
    std::int64_t samples = 0;                         ///< of all ranks
  };

  void start() {
    started_ = Clock::now();
    totals_ = {};
  }
  /// One step: its whole duration, and the other parts of it; the rest is compute.
  void add_step(double seconds, const Totals& parts) {
    totals_.compute += seconds - parts.communication - parts.data;
    totals_.communication += parts.communication;
    totals_.communication_work += parts.communication_work;
    totals_.data += parts.data;
    totals_.samples += parts.samples;
  }
  [[nodiscard]] Totals totals() const {
    Totals t = totals_;
    t.wall = seconds_since(started_);
    return t;
  }

 private:
  Clock::time_point started_ = Clock::now();
  Totals totals_;
};

/// later - earlier, part by part.
[[nodiscard]] StepClock::Totals operator-(const StepClock::Totals& later,
                                          const StepClock::Totals& earlier);

/// The split over the ranks; `slowest_wall` is the longest wall time of any. Collective.
[[nodiscard]] TimeSplit spread_over_ranks(ProcessGroup& group, const StepClock::Totals& mine,
                                          double& slowest_wall);

}  // namespace lockstep::train
