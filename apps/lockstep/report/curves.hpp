#pragma once
// A run's metrics.jsonl as curves over its steps.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/train/report/metrics.hpp>

namespace lockstep::report {

/// Points in the order of x, which are steps.
struct Curve {
  std::vector<double> x, y;  ///< of equal length; y may be no number

  void add(double at, double value) {
    x.push_back(at);
    y.push_back(value);
  }
  [[nodiscard]] std::size_t size() const noexcept { return x.size(); }
  [[nodiscard]] bool empty() const noexcept { return x.empty(); }
};

/// Of `columns` equal columns of the x axis the first, last, smallest and largest point, and the
/// first that is no finite number: a line through them covers the same pixels of a chart of that
/// width as one through all points (M4: Jugel, Jerzak, Hackenbroich, Markl: M4, A
/// Visualization-Oriented Time Series Data Aggregation, PVLDB 7(10), 2014). A curve of at most
/// 4 `columns` points stays as it is.
[[nodiscard]] Curve thinned(const Curve& curve, std::int64_t columns);

/// Parts of a step, in the order in which they are drawn.
inline constexpr std::array<const char*, 9> phases{"forward",
                                                   "backward",
                                                   "optimizer",
                                                   "other computing",
                                                   "waiting for data",
                                                   "summing itself",
                                                   "waiting for late ranks",
                                                   "transfer",
                                                   "other"};
/// Some steps in a row: seconds of each phase, mean over ranks.
struct Anatomy {
  std::int64_t last_step = 0, steps = 0;
  std::array<double, phases.size()> seconds{};
};

/// How often a rank was the slowest.
struct Straggler {
  std::int64_t rows = 0, first_step = 0, last_step = 0;
  double largest_ratio = 0;  ///< to the median of all ranks
};

/// All figures of a run's rows.
class Curves {
 public:
  void add(const train::MetricsRow& row);

  Curve batch_loss, epoch_loss, lr, grad_norm, step_ms, samples_per_s, tokens_per_s, share_of_peak;
  Curve slowest_ratio;  ///< 1 where no rank stands out
  /// "test loss", "validation accuracy": one curve each, in the order of their first row.
  std::vector<std::pair<std::string, Curve>> evaluations;
  std::vector<Anatomy> anatomy;
  std::map<std::pair<int, std::string>, Straggler> stragglers;  ///< by rank and phase
  std::optional<train::MetricsRow> last;                   ///< the newest "step" or "epoch" row
  std::int64_t rows = 0, last_step = 0, total_steps = -1;  ///< -1: not known

  /// Of a named evaluation; null if there is none.
  [[nodiscard]] const Curve* evaluation(const std::string& name) const;

 private:
  void add_times(const train::MetricsRow& row);
  void add_evaluation(const std::string& name, double step, double value);

  Anatomy of_epoch_;  ///< from the epoch's "step" rows
  double seconds_of_epoch_ = 0;
  std::int64_t done_ = 0;  ///< steps that rows have told of
};

}  // namespace lockstep::report
