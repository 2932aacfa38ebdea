#pragma once
#include <lockstep/base/clock.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/metrics.hpp>

namespace lockstep::train {

/// Adds up where a rank's training time goes, and compares the ranks.
class StepClock {
 public:
  struct Totals {
    double compute = 0, communication = 0, data = 0;  ///< seconds
    double wall = 0;                                  ///< since the clock started
    std::int64_t samples = 0;                         ///< of all ranks
  };

  void start() {
    started_ = Clock::now();
    totals_ = {};
  }
  /// One step: its whole duration, of which `communication` and `data` seconds were waiting.
  void add_step(double seconds, double communication, double data, std::int64_t samples) {
    totals_.compute += seconds - communication - data;
    totals_.communication += communication;
    totals_.data += data;
    totals_.samples += samples;
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
