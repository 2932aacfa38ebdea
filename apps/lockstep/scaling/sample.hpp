#pragma once
// What a run has written about its steps.
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::scaling {

/// Some steps in a row. Seconds; of phases the mean over the ranks.
struct Interval {
  std::int64_t first_step = 1, steps = 0;
  double samples = 0;  ///< of all ranks
  double seconds = 0;  ///< wall-clock, of the slowest rank
  double compute = 0, communication = 0, data = 0, other = 0;
  double work = 0, late = 0;  ///< of communication: the rank's own sums, waiting for late ranks
  double forward = 0, backward = 0;  ///< of compute

  [[nodiscard]] std::int64_t last_step() const noexcept { return first_step + steps - 1; }
};

/// The steps that the text of a metrics.jsonl tells of, each in one interval: those of a "step"
/// row, and behind the last one of an epoch those that only its "epoch" row holds. A last line
/// that is not whole is left out.
[[nodiscard]] std::vector<Interval> intervals_of(const std::string& metrics);

/// Of `intervals` those behind the first `warmup` steps, until they have `steps` steps. Fewer, if
/// there are no more.
[[nodiscard]] std::vector<Interval> measured(const std::vector<Interval>& intervals,
                                             std::int64_t warmup, std::int64_t steps);

/// All of them as one.
[[nodiscard]] Interval total(const std::vector<Interval>& intervals);

}  // namespace lockstep::scaling
