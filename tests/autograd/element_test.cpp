// Element operations and orders: what golden data and central differences do not show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/gated.hpp>
#include <lockstep/autograd/functional/order.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/where.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/philox.hpp>

#include "gradient_check.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

Variable numbers(const std::vector<float>& values) {
  return Variable(Tensor::from(values, {static_cast<std::int64_t>(values.size())}), true);
}

std::vector<float> values(const Variable& v) { return v.data().to_vector<float>(); }

/// d f / d x for a sum of f's elements.
std::vector<float> slopes(const Variable& x, const Variable& y) {
  weighted_sum(y, Tensor::full(y.shape(), 1.0, y.data().dtype())).backward();
  return x.grad().to_vector<float>();
}

// As PyTorch 2.15 has them.
TEST(Elements, GradientsAtKinksArePyTorchs) {
  const auto at = [](const auto& f, std::vector<float> x) {
    const Variable v = numbers(x);
    return slopes(v, f(v));
  };
  using V = const Variable&;
  EXPECT_EQ(at([](V x) { return abs(x); }, {0, -0.0F}), (std::vector<float>{0, 0}));
  EXPECT_EQ(at([](V x) { return clamp(x, -1, 1); }, {-1, 1, nan}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(at([](V x) { return clamp_min(x, 0); }, {0}), (std::vector<float>{0}));
  EXPECT_EQ(at([](V x) { return clamp_max(x, 0); }, {0}), (std::vector<float>{0}));
  EXPECT_EQ(at([](V x) { return clamp_min(x, 1); }, {-infinity, infinity, nan}),
            (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(at([](V x) { return clamp_max(x, 1); }, {-infinity, infinity, nan}),
            (std::vector<float>{1, 0, 0}));
  EXPECT_EQ(at([](V x) { return clamp_min(x, -infinity); }, {-infinity, 1, infinity}),
            (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(at([](V x) { return clamp(x, -infinity, infinity); }, {-infinity, 1, infinity}),
            (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(at([](V x) { return hardswish(x); }, {-3, 3}), (std::vector<float>{0, 1}));
  EXPECT_EQ(at([](V x) { return hardtanh(x); }, {nan}), (std::vector<float>{1}));
  EXPECT_EQ(at([](V x) { return relu(x); }, {0}), (std::vector<float>{0}));
  EXPECT_EQ(at([](V x) { return hardtanh(x); }, {-1, 1}), (std::vector<float>{0, 0}));
  EXPECT_EQ(at([](V x) { return relu6(x); }, {0, 6}), (std::vector<float>{0, 0}));
  EXPECT_EQ(at([](V x) { return leaky_relu(x, 0.5); }, {0}), (std::vector<float>{0.5}));
  EXPECT_EQ(at([](V x) { return hardsigmoid(x); }, {-3, 3}), (std::vector<float>{0, 0}));
  EXPECT_EQ(at([](V x) { return elu(x, 0.5); }, {0}), (std::vector<float>{0.5}));
}

TEST(Elements, SecondDerivativesBesideKinksAreThePieces) {
  const Variable x = numbers({-3, -2, 2, 3, 4});
  const Variable first = grad(sum(hardswish(x)), x, {.create_graph = true});
  EXPECT_EQ(values(first), (std::vector<float>{0, 0.5F - 2.0F / 3.0F, 0.5F + 2.0F / 3.0F, 1, 1}));
  const Variable at = numbers({0, 4}), weight = numbers({0.25F});
  const Variable by_weight = grad(sum(prelu(at, weight)), weight, {.create_graph = true});
  EXPECT_EQ(values(grad(by_weight, at)), (std::vector<float>{0, 0}));
  const Variable by_x = grad(sum(prelu(at, weight)), at, {.create_graph = true});
  EXPECT_EQ(values(by_x), (std::vector<float>{0.25F, 1}));
  EXPECT_EQ(values(grad(sum(by_x), weight)), (std::vector<float>{0}));
  const Variable bent = grad(sum(softplus(at, 0.5, 2.0)), at, {.create_graph = true});
  EXPECT_EQ(values(grad(sum(bent), at)), (std::vector<float>{0.125F, 0}));
  const float third = 1.0F / 3.0F;
  EXPECT_EQ(values(grad(sum(first), x)), (std::vector<float>{0, third, third, 0, 0}));
}

TEST(Elements, LimitsAreThoseOfTheFunctions) {
  const Variable x = numbers({-infinity, infinity, nan});
  const auto check = [&](const Variable& y, float low, float high) {
    const auto v = values(y);
    EXPECT_EQ(v[0], low);
    EXPECT_EQ(v[1], high);
    EXPECT_TRUE(std::isnan(v[2]));
  };
  check(elu(x, 0.5), -0.5F, infinity);
  check(softplus(x), 0.0F, infinity);
  check(logsigmoid(x), -infinity, 0.0F);
  check(hardtanh(x), -1.0F, 1.0F);
  check(hardsigmoid(x), 0.0F, 1.0F);
  check(clamp(x, -2, 3), -2.0F, 3.0F);
  check(abs(x), infinity, infinity);
  for (const auto& f : {lockstep::sin, lockstep::cos}) {
    for (const float y : values(f(x))) EXPECT_TRUE(std::isnan(y));
  }
  EXPECT_EQ(values(log(numbers({0.0F, infinity, 1.0F}))),
            (std::vector<float>{-infinity, infinity, 0.0F}));
  EXPECT_TRUE(std::isnan(values(log(numbers({-1.0F})))[0]));
}

TEST(Elements, PowersOfEveryNumberAreTheStandardLibrarys) {
  std::vector<float> x{0.0F, -0.0F, 1.0F, -1.0F, infinity, -infinity, nan, 1e-41F, -1e-41F, 3e38F};
  for (int i = -40; i <= 40; ++i) x.push_back(static_cast<float>(i) * 0.37F);
  for (int i = -40; i <= 40; ++i) x.push_back(std::ldexp(1.3F, 3 * i));
  for (const double p : {0.5, -0.5, 1.0, -1.0, 0.0, 2.0, 3.0, -2.0, -3.0, 1.7, 10.0, -7.5, 0.01}) {
    const auto y = values(pow(numbers(x), p));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = std::pow(static_cast<double>(x[i]), p);
      const auto rounded = static_cast<float>(expected);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(y[i])) << x[i] << " to " << p;
      } else if (std::isinf(rounded) || rounded == 0.0F) {
        EXPECT_EQ(y[i], rounded) << x[i] << " to " << p;
      } else {
        EXPECT_NEAR(y[i], expected, std::abs(expected) * 1.3e-7 + 1.5e-45) << x[i] << " to " << p;
      }
    }
  }
}

TEST(Elements, AnglesOfEverySizeAreExact) {
  std::vector<float> x;
  for (int i = 0; i < 9000; ++i) x.push_back(std::ldexp(1.0F + 0.0001F * i, i % 120 - 20));
  const Variable v = numbers(x);
  const auto s = values(lockstep::sin(v)), c = values(lockstep::cos(v));
  const auto slope = slopes(v, lockstep::sin(v) + lockstep::cos(v));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto angle = static_cast<double>(x[i]);
    EXPECT_NEAR(s[i], std::sin(angle), 1.2e-7) << x[i];
    EXPECT_NEAR(c[i], std::cos(angle), 1.2e-7) << x[i];
    EXPECT_NEAR(slope[i], std::cos(angle) - std::sin(angle), 4e-7) << x[i];
  }
}

TEST(Elements, NumbersStandOnEitherSide) {
  const Variable x = numbers({2.0F, -4.0F});
  EXPECT_EQ(values(1.0 + x), (std::vector<float>{3, -3}));
  EXPECT_EQ(values(x - 1.0), (std::vector<float>{1, -5}));
  EXPECT_EQ(values(1.0 - x), (std::vector<float>{-1, 5}));
  EXPECT_EQ(values(-x), (std::vector<float>{-2, 4}));
  EXPECT_EQ(values(2.0 * x), (std::vector<float>{4, -8}));
  EXPECT_EQ(values(x / 4.0), (std::vector<float>{0.5, -1}));
  EXPECT_EQ(values(8.0 / x), (std::vector<float>{4, -2}));
}

TEST(Elements, TensorsWithoutElementsPass) {
  for (const Shape& shape : {Shape{0}, Shape{3, 0, 2}, Shape{0, 4}}) {
    const Variable x(Tensor::zeros(shape), true);
    for (const auto& y : {exp(x), lockstep::sin(x), pow(x, 1.5), mish(x), cumsum(x, 0),
                          sort(x, 0).values, where(Tensor::zeros(shape, DType::boolean), x, x),
                          prelu(x, Variable(Tensor::zeros({1}), true))}) {
      EXPECT_EQ(y.shape(), shape);
      weighted_sum(y, Tensor::zeros(shape)).backward();
    }
  }
  EXPECT_EQ(topk(Variable(Tensor::zeros({3, 4})), 0).values.shape(), (Shape{3, 0}));
  EXPECT_EQ(glu(Variable(Tensor::zeros({0, 4}))).shape(), (Shape{0, 2}));
}

TEST(Elements, RefusalsNameTheAcceptedArguments) {
  const auto expect = [](const auto& f, const char* part) {
    try {
      static_cast<void>(f());
      ADD_FAILURE() << "nothing was refused: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const Variable x(Tensor::zeros({2, 3}), true);
  expect([&] { return glu(x); }, "must be even");
  expect([&] { return prelu(x, Variable(Tensor::zeros({2}))); }, "3 channels");
  expect([&] { return topk(x, 4); }, "k = 4");
  expect([&] { return topk(x, 1, 2); }, "dimension");
  expect([&] { return where(Tensor::zeros({2, 3}), x, x); }, "bool");
  expect([&] { return where(Tensor::zeros({4, 3}, DType::boolean), x, x); }, "[4, 3]");
  expect([&] { return hardtanh(x, 1, 1); }, "below max_val");
  expect([&] { return softplus(x, 0); }, "beta");
}

/// Indices in the order that the standard library finds.
template <class T>
std::vector<std::int64_t> expected_order(const std::vector<T>& x, bool descending) {
  std::vector<std::int64_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  const auto less = [](T a, T b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  std::ranges::stable_sort(order, [&](std::int64_t i, std::int64_t j) {
    const T a = x[static_cast<std::size_t>(i)], b = x[static_cast<std::size_t>(j)];
    return descending ? less(b, a) : less(a, b);
  });
  return order;
}

template <class T>
void expect_order(std::size_t n, bool descending) {
  PhiloxSequence random(n, 0);
  std::vector<T> x(n);
  for (auto& value : x) value = static_cast<T>(std::round(random.uniform() * 300.0) - 150.0);
  for (std::size_t i = 0; i + 7 < n; i += 7) x[i] = static_cast<T>(1e-3 * random.uniform());
  if (n > 6) {
    x[1] = std::numeric_limits<T>::quiet_NaN();
    x[2] = -std::numeric_limits<T>::infinity();
    x[3] = std::numeric_limits<T>::infinity();
    x[4] = T{-0.0};
    x[5] = T{0};
  }
  const auto order = expected_order(x, descending);
  const Variable v(Tensor::from(x, {static_cast<std::int64_t>(n)}));
  EXPECT_EQ(sort(v, 0, descending).indices.template to_vector<std::int64_t>(), order) << n;
  for (const std::size_t k : {std::size_t{1}, n / 50 + 1, n / 2 + 1, n}) {
    if (k > n) continue;
    EXPECT_EQ(
        topk(v, static_cast<std::int64_t>(k), 0, descending)
            .indices.template to_vector<std::int64_t>(),
        std::vector<std::int64_t>(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k)))
        << n << " " << k;
  }
}

TEST(Order, IsStableAndPutsNaNLastForRowsOfEveryLength) {
  for (const std::size_t n : {1U, 2U, 7U, 100U, 192U, 193U, 1000U, 5000U}) {
    for (const bool descending : {false, true}) {
      expect_order<float>(n, descending);
      expect_order<double>(n, descending);
    }
  }
}

TEST(Cumsum, OfManyFloatsIsExactToRounding) {
  const Tensor x = random_tensor({1, 100000}, 3).to(DType::f32);
  const auto y = cumsum(Variable(x), 1).data().to_vector<float>();
  double sum = 0.0;
  std::size_t i = 0;
  for (const float value : x.to_vector<float>()) {
    sum += static_cast<double>(value);
    EXPECT_EQ(y[i++], static_cast<float>(sum));
  }
}

}  // namespace
}  // namespace lockstep::test
