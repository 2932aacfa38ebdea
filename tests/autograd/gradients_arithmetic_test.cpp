// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/arithmetic.hpp>

#include "gradient_check.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

/// Away from 0, where quotients and logarithms bend too sharply for central differences.
Tensor positive_tensor(const Shape& shape, std::uint64_t seed) {
  auto values = random_tensor(shape, seed).to_vector<double>();
  for (double& value : values) value = 1.5 + 0.5 * value;
  return Tensor::from(values, shape);
}

TEST(ArithmeticGradient, AgreesWithCentralDifferencesHoweverOperandsAreRepeated) {
  const std::vector<std::pair<Shape, Shape>> operands{
      {{3, 5}, {3, 5}},    {{3, 5}, {5}},    {{5}, {3, 5}},
      {{3, 5}, {3, 1}},    {{3, 1}, {1, 5}}, {{2, 3, 2, 2}, {3, 1, 1}},
      {{4, 1, 3}, {5, 1}}, {{3, 5}, {}},     {{}, {3}},
      {{1}, {2, 1, 3}},    {{}, {}},         {{2, 1, 1, 3}, {1, 2, 2, 1}}};
  for (const auto& [first, second] : operands) {
    SCOPED_TRACE(to_string(first) + " and " + to_string(second));
    const std::vector<Tensor> inputs{random_tensor(first, 1), positive_tensor(second, 2)};
    expect_gradients([](const std::vector<Variable>& v) { return v[0] + v[1]; }, inputs);
    expect_gradients([](const std::vector<Variable>& v) { return v[0] - v[1]; }, inputs);
    expect_gradients([](const std::vector<Variable>& v) { return v[0] * v[1]; }, inputs);
    expect_gradients([](const std::vector<Variable>& v) { return v[0] / v[1]; }, inputs);
  }
}

TEST(ArithmeticGradient, AddsUpWhereAnOperandIsUsedTwice) {
  const std::vector<Tensor> inputs{positive_tensor({3, 4}, 3), positive_tensor({4}, 4)};
  expect_gradients([](const std::vector<Variable>& v) { return v[0] + v[0]; }, {inputs.front()});
  expect_gradients([](const std::vector<Variable>& v) { return v[0] - v[0]; }, {inputs.front()});
  expect_gradients(
      [](const std::vector<Variable>& v) {
        const Variable y = (v[0] * v[0] + v[0] * v[1]) / (v[0] + v[1]);
        return y * y - v[1] + (y + v[0]);
      },
      inputs);
  expect_gradients(
      [](const std::vector<Variable>& v) { return (v[0] + v[1]) * v[1] / v[1] - v[1]; },
      {random_tensor({3, 4}, 5), positive_tensor({3, 1}, 6)});
}

TEST(NumberGradient, AgreesWithCentralDifferences) {
  expect_gradients([](const std::vector<Variable>& v) { return v[0] * -3.5 + 2.0; },
                   {random_tensor({2, 3}, 5)});
}

TEST(ExpLogSqrtGradient, AgreesWithCentralDifferencesAlsoWhereUsedTwice) {
  expect_gradients(
      [](const std::vector<Variable>& v) {
        return exp(v[0]) + log(v[0]) + sqrt(v[0]) + exp(log(v[0]) * 0.5);
      },
      {positive_tensor({3, 5}, 6)});
}

TEST(MaskedFillGradient, IsZeroWhereTheMaskIsTrue) {
  const Tensor mask = Tensor::from(std::vector<double>{1, 0, 0, 1, 0}, {5}).to(DType::boolean);
  const Tensor column = Tensor::from(std::vector<double>{1, 0, 1}, {3, 1}).to(DType::boolean);
  for (const Tensor& m : {mask, column}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return masked_fill(v[0], m, 7) * masked_fill(v[0], m, -2);
        },
        {random_tensor({3, 5}, 7)});
  }
}

// Gradients that are small whole numbers, exact in both types.
TEST(CastGradient, IsConvertedBack) {
  const Variable x(Tensor::from(std::vector<double>{1, 2, 3}, {3}), true);
  const Variable y = to(x, DType::f32);
  EXPECT_EQ(y.data().dtype(), DType::f32);
  weighted_sum(y, Tensor::from(std::vector<float>{1, 2, 4}, {3})).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 2, 4}));
  weighted_sum(to(x, DType::f32), Tensor::full({3}, 1)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 3, 5}));
}

}  // namespace
}  // namespace lockstep::test
