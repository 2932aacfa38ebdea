#pragma once
#include <cstdint>
#include <vector>

namespace lockstep::heat {

/// Temperature and conductivity at every inner point of a grid.
struct State {
  std::vector<double> field, conductivity;
};

/// The heat equation u_t = div(k grad u) with varying conductivity k in the unit square or cube, u
/// = 0 on its faces. Finite volumes around the inner points (i + 1) / (n + 1) of each direction;
/// explicit steps well below the stability limit. Row-major, x last.
class StepSolver {
 public:
  StepSolver(std::int64_t points, int dims);

  /// Sample number `sample` of a sequence: a function of (seed, stream, sample) alone. Three
  /// Gaussians with heights in [-1, 1]; k = 0.02 10^s, where 0 <= s <= 1 is the sum of two waves.
  [[nodiscard]] State random_state(std::uint64_t seed, std::uint32_t stream,
                                   std::int64_t sample) const;
  /// Returns the field `time` later.
  [[nodiscard]] std::vector<double> advance(const State& state, double time) const;
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }  ///< number of grid points

 private:
  /// Coordinate, in [0, points), of point `at` along the direction with stride `stride`.
  [[nodiscard]] std::int64_t coordinate(std::int64_t at, std::int64_t stride) const {
    return at / stride % points_;
  }

  std::int64_t points_, size_ = 1;
  std::vector<std::int64_t> strides_;  ///< one per direction
};

}  // namespace lockstep::heat
