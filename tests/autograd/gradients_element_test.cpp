// Backward against central differences in double.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/gated.hpp>
#include <lockstep/autograd/functional/order.hpp>
#include <lockstep/autograd/functional/where.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

using Element = std::function<Variable(const Variable&)>;

/// Spread over [-4, 4], none closer than 0.01 to a whole number or a half, where some functions
/// have kinks.
Tensor spread_tensor(const Shape& shape, std::uint64_t seed) {
  auto values = random_tensor(shape, seed).to_vector<double>();
  for (double& value : values) {
    value *= 4.0;
    const double nearest = std::round(2.0 * value) / 2.0;
    if (std::abs(value - nearest) < 0.01) value = nearest + 0.02;
  }
  return Tensor::from(values, shape);
}

Tensor above_zero(const Shape& shape, std::uint64_t seed) {
  auto values = random_tensor(shape, seed).to_vector<double>();
  for (double& value : values) value = 1.25 + value;
  return Tensor::from(values, shape);
}

void expect_element_gradient(const Element& f, const Tensor& x) {
  expect_gradients([&](const std::vector<Variable>& v) { return f(v[0]); }, {x});
  // Used twice: the second contribution is added to the first.
  expect_gradients([&](const std::vector<Variable>& v) { return f(v[0]) + f(v[0] * 1.001); }, {x});
}

TEST(ElementGradient, AgreesWithCentralDifferences) {
  const std::vector<Element> functions{
      [](const Variable& x) { return exp(x * 0.5); },
      [](const Variable& x) { return abs(x); },
      [](const Variable& x) { return sin(x); },
      [](const Variable& x) { return cos(x); },
      [](const Variable& x) { return pow(x, 2.0); },
      [](const Variable& x) { return pow(x, 3.0); },
      [](const Variable& x) { return pow(x, 4.0) * 0.01; },
      [](const Variable& x) { return pow(x, 0.0); },
      [](const Variable& x) { return clamp(x, -1.5, 2.5); },
      [](const Variable& x) { return clamp_min(x, -1.5); },
      [](const Variable& x) { return clamp_max(x, 1.5); },
      [](const Variable& x) { return 2.0 - x; },
      [](const Variable& x) { return 3.0 * (-x + 1.0) / 2.0 - 0.5; },
      [](const Variable& x) { return leaky_relu(x); },
      [](const Variable& x) { return elu(x, 0.7); },
      [](const Variable& x) { return celu(x, 0.7); },
      [](const Variable& x) { return selu(x); },
      [](const Variable& x) { return softplus(x); },
      [](const Variable& x) { return softplus(x, 3.0, 5.0); },
      [](const Variable& x) { return softsign(x); },
      [](const Variable& x) { return hardtanh(x, -2.0, 1.5); },
      [](const Variable& x) { return relu6(x); },
      [](const Variable& x) { return hardsigmoid(x); },
      [](const Variable& x) { return hardswish(x); },
      [](const Variable& x) { return mish(x); },
      [](const Variable& x) { return logsigmoid(x); }};
  for (std::size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE(i);
    expect_element_gradient(functions[i], spread_tensor({3, 21}, 8));
  }
}

TEST(ElementGradient, AgreesWithCentralDifferencesAboveZero) {
  const std::vector<Element> functions{[](const Variable& x) { return log(x); },
                                       [](const Variable& x) { return sqrt(x); },
                                       [](const Variable& x) { return rsqrt(x); },
                                       [](const Variable& x) { return pow(x, 1.7); },
                                       [](const Variable& x) { return reciprocal(x); },
                                       [](const Variable& x) { return pow(x, -0.5); },
                                       [](const Variable& x) { return 2.5 / x; }};
  for (std::size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE(i);
    expect_element_gradient(functions[i], above_zero({3, 21}, 8));
  }
}

TEST(PreluGradient, AgreesWithCentralDifferencesForOneWeightAndForOneAChannel) {
  for (const auto& [shape, channels] : std::vector<std::pair<Shape, std::int64_t>>{
           {{3, 4, 5}, 4}, {{3, 4, 5}, 1}, {{3, 4}, 4}, {{6}, 1}, {{2, 3, 2, 2}, 3}}) {
    SCOPED_TRACE(to_string(shape));
    expect_gradients(
        [](const std::vector<Variable>& v) { return prelu(v[0], v[1]) + prelu(v[0] * 2.0, v[1]); },
        {spread_tensor(shape, 3), random_tensor({channels}, 4)});
  }
}

TEST(GluGradient, AgreesWithCentralDifferencesAlongEveryDimension) {
  for (const int dim : {0, 1, -1}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) { return glu(v[0], dim) + glu(v[0] * 2.0, dim); },
        {random_tensor({4, 6, 2}, 5)});
  }
}

TEST(WhereGradient, AgreesWithCentralDifferencesHoweverOperandsAreRepeated) {
  const auto mask = [](const Shape& shape) {
    std::vector<std::uint8_t> bits(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = i * i % 3 == 1 ? 1 : 0;
    return Tensor::from(bits, shape).to(DType::boolean);
  };
  for (const auto& [condition, a, b] :
       std::vector<std::array<Shape, 3>>{{Shape{3, 5}, Shape{3, 5}, Shape{3, 5}},
                                         {Shape{5}, Shape{3, 5}, Shape{3, 1}},
                                         {Shape{3, 5}, Shape{5}, Shape{}},
                                         {Shape{2, 3, 1}, Shape{3, 4}, Shape{1, 4}},
                                         {Shape{4, 1}, Shape{1, 3}, Shape{3}}}) {
    SCOPED_TRACE(to_string(condition) + to_string(a) + to_string(b));
    const Tensor which = mask(condition);
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return where(which, v[0], v[1]) + where(which, v[1], v[0] * 2.0);
        },
        {random_tensor(a, 6), random_tensor(b, 7)});
  }
}

TEST(CumsumGradient, AgreesWithCentralDifferencesAlongEveryDimension) {
  for (const int dim : {0, 1, 2}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) { return cumsum(v[0], dim) + cumsum(v[0], dim); },
        {random_tensor({3, 5, 4}, 9)});
  }
  expect_gradients([&](const std::vector<Variable>& v) { return cumsum(v[0], 0); },
                   {random_tensor({3, 35}, 9)});
}

TEST(OrderGradient, AgreesWithCentralDifferencesAlongEveryDimension) {
  for (const int dim : {0, 1, 2}) {
    for (const bool flag : {true, false}) {
      expect_gradients(
          [&](const std::vector<Variable>& v) {
            return sort(v[0], dim, flag).values + sort(v[0] * 2.0, dim, flag).values;
          },
          {random_tensor({3, 5, 4}, 10)});
      expect_gradients(
          [&](const std::vector<Variable>& v) { return topk(v[0], 2, dim, flag).values; },
          {random_tensor({3, 5, 4}, 11)});
    }
  }
}

}  // namespace
}  // namespace lockstep::test
