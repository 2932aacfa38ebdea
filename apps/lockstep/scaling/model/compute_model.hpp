#pragma once
// Seconds of a rank's own work in a step, by its samples, and their scatter.
#include <array>
#include <cstdint>
#include <vector>

#include "scaling/analysis.hpp"

namespace lockstep::scaling {

/// Measurements of one size: medians over the repeats, seconds a step, means over its ranks.
struct StepParts {
  int ranks = 1, nodes = 1;
  std::int64_t batch_size = 1;
  double crowding = 1;  ///< ranks for each place on a node that has the cores of one; at least 1
  double step = 0;
  double forward = 0, backward = 0;
  double rest = 0;               ///< of compute (the optimizer most of all), the loader and "other"
  double exposed = 0, late = 0;  ///< late is a part of exposed

  [[nodiscard]] double share() const noexcept {  ///< samples a rank
    return static_cast<double>(batch_size) / ranks;
  }
};

/// Of all sizes with a repeat that was measured. `places`: ranks for which a node has cores.
[[nodiscard]] std::vector<StepParts> step_parts(const std::vector<Result>& results, int places);

/// A rank that has its cores for itself. forward and backward are a + b x samples each, rest
/// likewise: robust_fit() of the measured sizes; where all of them had the same share, only that
/// share is known. Of a size with more ranks than cores, compute and the waiting for late ranks
/// together are divided by the crowding: cores were shared fairly, and a waiting rank lends its
/// own.
class ComputeModel {
 public:
  /// `sizes` is not empty. Throws InputError where forward and backward are not known.
  explicit ComputeModel(const std::vector<StepParts>& sizes);

  struct Seconds {
    double forward = 0, backward = 0, rest = 0;
  };
  /// With `parts` times as many parts of a batch (train.accumulate) as measured. Throws InputError
  /// for parts of another share than the only one that was measured.
  [[nodiscard]] Seconds seconds(double samples, double parts = 1) const;
  /// Of one rank's time in one step: measured waiting for late ranks, over expected_maximum() of
  /// their number; the median over the sizes of two ranks or more that had their own cores. 0 if
  /// there is none.
  [[nodiscard]] double scatter_s() const noexcept { return scatter_s_; }
  [[nodiscard]] bool knows_scatter() const noexcept { return knows_scatter_; }
  /// Of the fit: the largest relative error of forward + backward + rest.
  [[nodiscard]] double error() const noexcept { return error_; }
  [[nodiscard]] double least_share() const noexcept { return least_share_; }
  [[nodiscard]] double most_share() const noexcept { return most_share_; }
  [[nodiscard]] Json json() const;

 private:
  std::array<std::vector<double>, 3> coefficients_;  ///< forward, backward, rest: a, b
  double scatter_s_ = 0, error_ = 0, least_share_ = 0, most_share_ = 0;
  bool knows_scatter_ = false;
};

}  // namespace lockstep::scaling
