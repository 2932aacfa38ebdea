// The float functions against the standard library in double: every 1009th float of both signs,
// 8,000 in each binade.
#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <support/larger.hpp>

namespace lockstep::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// f(x) for every 1009th float in [low, high].
template <class F>
void for_floats(float low, float high, const F& f) {
  for (std::uint32_t bits = 0; bits < 0x7F800000U; bits += 1009) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const float x = math::detail::from_bits(bits | sign);
      if (x >= low && x <= high) f(x);
    }
  }
}

/// The unit in the last place of a float of y's size.
double ulp(double y) {
  int exponent = 0;
  std::frexp(y, &exponent);
  return std::ldexp(1.0, std::max(exponent - 24, -149));
}

template <class F, class Exact>
void expect_ulps(double bound, float low, float high, const F& f, const Exact& exact) {
  double worst = 0;
  float at = 0;
  for_floats(low, high, [&](float x) {
    const double expected = exact(static_cast<double>(x));
    const double error = std::abs(static_cast<double>(f(x)) - expected) / ulp(expected);
    if (!std::isnan(worst) && !(error <= worst)) at = x;
    worst = test::larger(worst, error);
  });
  EXPECT_LE(worst, bound) << "at x = " << at;
}

double sigmoid_in_double(double x) { return 1.0 / (1.0 + std::exp(-x)); }

TEST(MathFunctions, ExpIsExactToTheUlp) {
  const auto exact = [](double x) { return std::exp(x); };
  expect_ulps(
      1.2, -110.0F, 88.7F, [](float x) { return math::exp(x); }, exact);
  expect_ulps(
      1.2, -87.3F, 88.0F, [](float x) { return math::exp_or_zero(x); }, exact);
}

TEST(MathFunctions, ExpEndsInZeroAndInfinity) {
  EXPECT_EQ(math::exp(0.0F), 1.0F);
  EXPECT_EQ(math::exp(-0.0F), 1.0F);
  EXPECT_EQ(math::exp(-infinity), 0.0F);
  EXPECT_EQ(math::exp(infinity), infinity);
  EXPECT_EQ(math::exp(89.0F), infinity);
  EXPECT_EQ(math::exp(-104.0F), 0.0F);
  EXPECT_EQ(math::exp(-103.0F), std::numeric_limits<float>::denorm_min());
  EXPECT_TRUE(std::isnan(math::exp(nan)));
  EXPECT_EQ(math::exp_or_zero(0.0F), 1.0F);
  for (const float x : {-infinity, -1e30F, -104.0F, -87.34F}) {
    EXPECT_EQ(math::exp_or_zero(x), 0.0F) << x;
  }
  EXPECT_TRUE(std::isnan(math::exp_or_zero(nan)));
}

TEST(MathFunctions, TanhAndSigmoidAreExactToAFewUlps) {
  expect_ulps(
      2.6, -1e30F, 1e30F, [](float x) { return math::tanh(x); },
      [](double x) { return std::tanh(x); });
  expect_ulps(
      3.0, -110.0F, 1e30F, [](float x) { return math::sigmoid(x); }, sigmoid_in_double);
  expect_ulps(
      3.0, -110.0F, 1e30F, [](float x) { return math::sigmoid_and_complement(x).value; },
      sigmoid_in_double);
  expect_ulps(
      3.0, -1e30F, 110.0F, [](float x) { return math::sigmoid_and_complement(x).complement; },
      [](double x) { return sigmoid_in_double(-x); });
}

TEST(MathFunctions, TanhAndSigmoidKeepSignsZerosAndNaN) {
  EXPECT_EQ(math::tanh(infinity), 1.0F);
  EXPECT_EQ(math::tanh(-infinity), -1.0F);
  EXPECT_TRUE(std::signbit(math::tanh(-0.0F)));
  EXPECT_EQ(math::tanh(-0.0F), 0.0F);
  EXPECT_TRUE(std::isnan(math::tanh(nan)));
  EXPECT_EQ(math::sigmoid(infinity), 1.0F);
  EXPECT_EQ(math::sigmoid(-infinity), 0.0F);
  EXPECT_EQ(math::sigmoid(0.0F), 0.5F);
  EXPECT_TRUE(std::isnan(math::sigmoid(nan)));
}

TEST(MathFunctions, LogarithmsAreExactToTheUlp) {
  const auto log = [](double x) { return std::log(x); };
  expect_ulps(
      1.2, 1e-45F, 3e38F, [](float x) { return math::log(x); }, log);
  const auto log1p = [](double x) { return std::log1p(x); };
  expect_ulps(
      2.0, -0.5F, 1.0F, [](float x) { return math::log1p(x); }, log1p);
  EXPECT_TRUE(std::isnan(math::log1p(nan)));
  EXPECT_EQ(math::log(infinity), infinity);
  EXPECT_EQ(math::log(0.0F), -infinity);
  EXPECT_EQ(math::log(-0.0F), -infinity);
  EXPECT_TRUE(std::isnan(math::log(-1.0F)));
  EXPECT_TRUE(std::isnan(math::log(-infinity)));
  EXPECT_TRUE(std::isnan(math::log(nan)));
}

TEST(MathFunctions, Expm1OfSmallNumbersIsExactToTwoUlps) {
  expect_ulps(
      2.0, -200.0F, 88.0F, [](float x) { return math::expm1(x); },
      [](double x) { return std::expm1(x); });
  EXPECT_EQ(math::expm1(-infinity), -1.0F);
  EXPECT_EQ(math::detail::bits_of(math::expm1(-0.0F)), 0x80000000U);
  EXPECT_TRUE(std::isnan(math::expm1(nan)));
}

TEST(MathFunctions, SineAndCosineAreExactToRounding) {
  double worst = 0;
  for_floats(-math::largest_angle, math::largest_angle, [&](float x) {
    const auto angle = static_cast<double>(x);
    worst = test::larger(worst, std::abs(static_cast<double>(math::sin(x)) - std::sin(angle)) /
                                    (std::abs(std::sin(angle)) + 1e-30));
    worst = test::larger(worst, std::abs(static_cast<double>(math::cos(x)) - std::cos(angle)) /
                                    (std::abs(std::cos(angle)) + 1e-30));
  });
  EXPECT_LE(worst, 1.5e-7);
}

TEST(MathFunctions, PowersAreExactToTheUlp) {
  for (const double p : {0.3, -0.7, 1.7, 2.5, -3.3}) {
    const math::Power<float> power(p);
    expect_ulps(0.6, 1e-8F, 1e8F, power, [&](double x) { return std::pow(x, p); });
  }
}

// 1 + erf would leave nothing of them below -5.4.
TEST(MathFunctions, NormalDistributionAndGeluAreExactToAFewUlps) {
  expect_ulps(
      8.0, -12.9F, 1e30F, [](float x) { return math::normal_cdf(x); },
      [](double x) { return math::normal_cdf(x); });
  expect_ulps(
      8.0, -12.9F, 1e30F, [](float x) { return math::gelu(x); },
      [](double x) { return math::gelu(x); });
  double worst = 0;
  for_floats(-13.0F, 1e30F, [&](float x) {
    const auto at = static_cast<double>(x);
    const double larger = math::normal_cdf(at) + std::abs(at) * std::exp(-0.5 * at * at) * 0.4;
    const double error = static_cast<double>(math::gelu_derivative(x)) - math::gelu_derivative(at);
    worst = test::larger(worst, std::abs(error) / ulp(larger));
  });
  EXPECT_LE(worst, 8.0);
  // Below -12.9 the smallest numbers, which lack digits.
  for_floats(-13.3F, -12.9F, [](float x) {
    const auto at = static_cast<double>(x);
    ASSERT_NEAR(math::normal_cdf(x), math::normal_cdf(at), 3e-40) << x;
    ASSERT_NEAR(math::gelu(x), math::gelu(at), 4e-39) << x;
  });
  for (const float x : {-infinity, -1e30F, -88.0F, -13.3F}) {
    EXPECT_EQ(math::normal_cdf(x), 0.0F) << x;
    EXPECT_TRUE(std::isinf(x) ? std::isnan(math::gelu(x)) : math::gelu(x) == 0.0F) << x;
    EXPECT_EQ(math::gelu_derivative(x), 0.0F) << x;
    EXPECT_EQ(math::normal_cdf(-x), 1.0F) << -x;
    EXPECT_EQ(math::gelu(-x), -x) << -x;
    EXPECT_EQ(math::gelu_derivative(-x), 1.0F) << -x;
  }
  for (const float any : {nan, -nan}) {
    EXPECT_TRUE(std::isnan(math::gelu(any)));
    EXPECT_TRUE(std::isnan(math::gelu_derivative(any)));
  }
}

/// f of all of xs in a loop of vectors.
template <class F>
std::vector<float> in_vectors(const std::vector<float>& xs, const F& f) {
  std::vector<float> ys(xs.size());
#pragma omp simd
  for (std::size_t i = 0; i < xs.size(); ++i) ys[i] = f(xs[i]);
  return ys;
}

template <class F>
void expect_same_bits(const std::vector<float>& xs, const F& f) {
  const auto ys = in_vectors(xs, f);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    // An array of one: no vector fits.
    const float alone = in_vectors({xs[i]}, f)[0];
    if (std::isnan(alone)) {
      ASSERT_TRUE(std::isnan(ys[i])) << xs[i];
    } else {
      ASSERT_EQ(math::detail::bits_of(ys[i]), math::detail::bits_of(alone)) << xs[i];
    }
  }
}

TEST(MathFunctions, GiveTheSameBitsInAVectorAsAlone) {
  std::vector<float> xs{0.0F, -0.0F, infinity, -infinity, nan, 1e-41F, -1e-41F, 88.0F, -88.0F};
  for (int i = 0; i < 4099; ++i) xs.push_back(0.013F * static_cast<float>(i - 2050));
  expect_same_bits(xs, [](float x) { return math::exp(x); });
  expect_same_bits(xs, [](float x) { return math::exp_or_zero(-std::fabs(x)); });
  expect_same_bits(xs, [](float x) { return math::tanh(x); });
  expect_same_bits(xs, [](float x) { return math::sigmoid(x); });
  expect_same_bits(xs, [](float x) { return math::sigmoid_and_complement(x).complement; });
  expect_same_bits(xs, [](float x) { return math::expm1(x); });
  expect_same_bits(xs, [](float x) { return math::log(x); });
  expect_same_bits(xs, [](float x) { return math::log1p(math::exp(-std::fabs(x))); });
  expect_same_bits(xs, [](float x) { return math::sin(x); });
  expect_same_bits(xs, [](float x) { return math::cos(x); });
  const math::Power<float> power(1.7);
  expect_same_bits(xs, [&](float x) { return power(x); });
  expect_same_bits(xs, [](float x) { return math::gelu(x); });
  expect_same_bits(xs, [](float x) { return math::gelu_derivative(x); });
}

}  // namespace
}  // namespace lockstep::test
