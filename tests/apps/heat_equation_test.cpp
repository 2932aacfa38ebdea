// The generator of the heat equation's solutions against known solutions.
#include <gtest/gtest.h>
#include <heat_data/heat_equation.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <support/larger.hpp>

namespace lockstep::heat {
namespace {

double place(std::int64_t i, std::int64_t n) {
  return static_cast<double>(i + 1) / static_cast<double>(n + 1);
}

/// Largest |field(i, j) - exact(x, y)|.
template <class Exact>
double largest_error(const std::vector<double>& field, std::int64_t n, const Exact& exact) {
  double largest = 0;
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < n; ++i)
      largest = test::larger(largest, std::abs(field[static_cast<std::size_t>(j * n + i)] -
                                               exact(place(i, n), place(j, n))));
  return largest;
}

TEST(HeatSolver, GaussianSpreadsAsItDoesInThePlaneWhileItIsFarFromTheEdges) {
  // exp(-r^2 / 2 w^2) becomes w^2 / v exp(-r^2 / 2 v) with v = w^2 + 2 k t in the plane. At the
  // edges of the square that is below 1e-13 here.
  const HeatSolver solver(63);
  const Source source{.x = 0.52, .y = 0.47, .width = 0.04, .diffusivity = 1};
  const double k_time = 4e-4, w = source.width * source.width, v = w + 2 * k_time;
  auto field = solver.initial(source);
  solver.advance(field, k_time);
  EXPECT_LE(largest_error(field, 63,
                          [&](double x, double y) {
                            const double r = std::pow(x - source.x, 2) + std::pow(y - source.y, 2);
                            return w / v * std::exp(-r / (2 * v));
                          }),
            1e-9);
}

TEST(HeatSolver, LowestModeDecaysAtItsOwnRate) {
  const std::int64_t n = 10;
  const HeatSolver solver(n);
  const auto mode = [](double x, double y) {
    return std::sin(std::numbers::pi * x) * std::sin(std::numbers::pi * y);
  };
  std::vector<double> field;
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < n; ++i) field.push_back(mode(place(i, n), place(j, n)));
  solver.advance(field, 0.1);
  const double decay = std::exp(-2 * std::numbers::pi * std::numbers::pi * 0.1);
  EXPECT_LE(largest_error(field, n, [&](double x, double y) { return decay * mode(x, y); }), 1e-14);
}

TEST(HeatSolver, TwoShortTimesAreOneLongTime) {
  const HeatSolver solver(16);
  auto once = solver.initial({}), twice = once;
  solver.advance(once, 0.02);
  solver.advance(twice, 0.005);
  solver.advance(twice, 0.015);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(once[i], twice[i], 1e-13);
}

TEST(RandomSource, IsAFunctionOfSeedStreamAndSample) {
  const auto x = [](std::uint64_t seed, std::uint32_t stream, std::int64_t sample) {
    return random_source(seed, stream, sample).x;
  };
  EXPECT_EQ(x(1, 0, 5), x(1, 0, 5));
  EXPECT_NE(x(1, 0, 5), x(1, 0, 6));
  EXPECT_NE(x(1, 0, 5), x(1, 1, 5));
  EXPECT_NE(x(1, 0, 5), x(2, 0, 5));
}

}  // namespace
}  // namespace lockstep::heat
