#pragma once
// From the samples of a study to its figures.
#include <cstdint>
#include <string>
#include <vector>

#include "json.hpp"
#include "plan.hpp"
#include "sample.hpp"

namespace lockstep::scaling {

/// Over repeats. The median of an even number is the mean of the two in the middle.
struct Scatter {
  double median = 0, min = 0, max = 0;
};
/// Of at least one value.
[[nodiscard]] Scatter scatter_of(std::vector<double> values);

/// One run of the program.
struct Result {
  int ranks = 1, nodes = 1, repeat = 1;
  std::int64_t batch_size = 1;
  bool oversubscribed = false;
  std::string failed;  ///< why there is nothing else
  std::vector<Interval> intervals;
  std::vector<std::int64_t> peak_rss_mib;  ///< by rank

  [[nodiscard]] Json json() const;
  /// Throws nlohmann's exceptions where it is none.
  [[nodiscard]] static Result from(const Json& json);
};
/// With the size and the repeat of `point`, and nothing measured yet.
[[nodiscard]] Result result_of(const Point& point);

/// What the repeats of one size came to. Milliseconds a step; each repeat's is the mean over its
/// measured steps, of which waiting and data are parts, means over the ranks.
struct Figures {
  int ranks = 1, nodes = 1;
  std::int64_t batch_size = 1;
  bool oversubscribed = false;
  int repeats = 0;                    ///< that were measured
  std::vector<std::string> failures;  ///< of the others
  Scatter step_ms, samples_per_s;
  Scatter exposed_ms;  ///< waiting for gradients: communication that compute did not hide
  Scatter late_ms;     ///< of it: waiting for late ranks
  Scatter data_ms;     ///< waiting for the loader
  std::int64_t peak_rss_mib = 0;  ///< of the rank that had most
  /// By the medians of samples/s, against the fewest ranks that were measured.
  double speed_up = 0, efficiency = 0;

  [[nodiscard]] Json json() const;
};

/// One for each size, in the order in which sizes come first. Speed-up is samples/s over those of
/// the fewest ranks, efficiency that over the ratio of ranks: strong and weak scaling alike.
[[nodiscard]] std::vector<Figures> analyse(const std::vector<Result>& results);

}  // namespace lockstep::scaling
