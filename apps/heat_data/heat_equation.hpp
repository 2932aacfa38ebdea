#pragma once
#include <cstdint>
#include <vector>

namespace lockstep::heat {

/// A Gaussian of height 1 inside the unit square. It cools; the edges stay at 0.
struct Source {
  double x = 0.5, y = 0.5;   ///< centre
  double width = 0.1;        ///< standard deviation
  double diffusivity = 0.1;  ///< diffusivity of the material
};

/// Source number `sample` of a sequence: a function of (seed, stream, sample) alone. Uniform in
/// x, y of [0.35, 0.65], width of [0.06, 0.12] and diffusivity of [0.02, 0.2].
[[nodiscard]] Source random_source(std::uint64_t seed, std::uint32_t stream, std::int64_t sample);

/// The heat equation u_t = k (u_xx + u_yy) on the unit square, u = 0 on its edges, at the n x n
/// inner points ((i + 1) / (n + 1), (j + 1) / (n + 1)). The field is a sum of the eigenfunctions
/// sin(a pi x) sin(b pi y); each decays by exp(-k pi^2 (a^2 + b^2) t). This is exact in time. In
/// space it is as exact as n modes per direction describe the initial field.
class HeatSolver {
 public:
  explicit HeatSolver(std::int64_t points);

  [[nodiscard]] std::int64_t points() const noexcept { return n_; }
  /// The source's field at time 0, row-major [n, n]: y first, then x.
  [[nodiscard]] std::vector<double> initial(const Source& source) const;
  /// Replaces `field` by the field `k_time` later. `k_time` is diffusivity times time.
  void advance(std::vector<double>& field, double k_time) const;

 private:
  [[nodiscard]] double position(std::int64_t i) const;
  /// S field S, with S the symmetric n x n sine matrix: maps modes to values and back.
  void transform(std::vector<double>& field) const;

  std::int64_t n_;
  std::vector<double> sines_;  ///< sqrt(2 / (n + 1)) sin(pi (a + 1) (i + 1) / (n + 1)): S S = 1
};

}  // namespace lockstep::heat
