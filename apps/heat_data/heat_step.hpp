#pragma once
#include <cstdint>
#include <vector>

namespace lockstep::heat {

/// A temperature and the conductivity of the material at every inner point of a grid.
struct State {
  std::vector<double> field, conductivity;
};

/// The heat equation u_t = div(k grad u) in the unit square or cube whose conductivity k varies,
/// u = 0 on its faces, by finite volumes around the inner points (i + 1) / (n + 1) of each
/// direction and explicit steps well below the limit of stability. Row-major, x last.
class StepSolver {
 public:
  StepSolver(std::int64_t points, int dims);

  /// Number `sample` of a sequence: a function of (seed, stream, sample) alone. Three Gaussians of
  /// heights in [-1, 1], and k = 0.02 10^s, 0 <= s <= 1 the sum of two waves.
  [[nodiscard]] State random_state(std::uint64_t seed, std::uint32_t stream,
                                   std::int64_t sample) const;
  /// The field `time` later.
  [[nodiscard]] std::vector<double> advance(const State& state, double time) const;
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }  ///< points of the grid

 private:
  /// Coordinate in [0, points) of point `at` along the direction with that stride.
  [[nodiscard]] std::int64_t coordinate(std::int64_t at, std::int64_t stride) const {
    return at / stride % points_;
  }

  std::int64_t points_, size_ = 1;
  std::vector<std::int64_t> strides_;  ///< one a direction
};

}  // namespace lockstep::heat
