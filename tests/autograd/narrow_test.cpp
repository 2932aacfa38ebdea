// bf16 and f16 variables: operations on them are those in f32 with results rounded once.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>

#include "operations/operations.hpp"

namespace lockstep::test {
namespace {

std::vector<double> numbers(const Tensor& t) { return t.to(DType::f64).to_vector<double>(); }

/// ||a - b|| / ||b||.
double relative(const Tensor& a, const Tensor& b) {
  const auto x = numbers(a), y = numbers(b);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return size == 0 ? difference : std::sqrt(difference / size);
}

struct Outcome {
  Tensor y;
  std::vector<Tensor> gradients;
};

/// Of numbers that bf16 holds exactly, held in `dtype`.
Outcome outcome(const Operation& operation, DType dtype) {
  Inputs inputs;
  for (const Variable& input : make_inputs(operation, DType::f32)) {
    inputs.emplace_back(input.data().to(DType::bf16).to(dtype).clone(), true);
  }
  const Variable y = operation.apply(inputs);
  std::vector<float> weights(static_cast<std::size_t>(y.data().numel()));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = 0.25F + static_cast<float>(i * 37 % 16) / 16;
  }
  const Tensor upstream = Tensor::from(weights, y.shape()).to(y.data().dtype());
  backward(std::span(&y, 1), std::span(&upstream, 1));
  Outcome result{y.data(), {}};
  for (const Variable& input : inputs) result.gradients.push_back(input.grad());
  return result;
}

TEST(Narrow, EveryOperationIsThatInDoubleWithinARoundingOfItsResults) {
  constexpr double unit = 0x1p-9;
  int compared = 0;
  for (const Operation& operation : all_operations()) {
    if (std::string(operation.name).find("blocks") != std::string::npos) continue;  // f32 only
    SCOPED_TRACE(operation.name);
    const Outcome exact = outcome(operation, DType::f64);
    const Outcome found = outcome(operation, DType::bf16);
    EXPECT_EQ(found.y.dtype(), DType::bf16);
    EXPECT_LT(relative(found.y, exact.y), 4 * unit);
    for (std::size_t i = 0; i < exact.gradients.size(); ++i) {
      ASSERT_EQ(found.gradients[i].defined(), exact.gradients[i].defined()) << i;
      if (!exact.gradients[i].defined()) continue;
      EXPECT_EQ(found.gradients[i].dtype(), DType::bf16) << i;
      EXPECT_LT(relative(found.gradients[i], exact.gradients[i]), 4 * unit) << i;
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

TEST(Narrow, AResultIsRoundedOnce) {
  // 1 + 2^-8 is half way between two bf16 numbers: to even.
  const Variable one(Tensor::full({1}, 1.0, DType::bf16)),
      small(Tensor::full({1}, 0x1p-8, DType::bf16));
  EXPECT_EQ((one + small).data().item(), 1.0);
  EXPECT_EQ((one + small * 3.0).data().item(), 1.0 + 0x1p-6);
  // Not in between: the sum of 256 such is exact.
  EXPECT_EQ(sum(Variable(Tensor::full({256}, 1.0 + 0x1p-7, DType::bf16))).data().item(), 258.0);
}

TEST(Narrow, BesideAnotherFloatingTypeResultsAreF32AndGradientsOfEachType) {
  const Variable a(Tensor::full({2}, 1.5, DType::bf16), true), b(Tensor::full({2}, 2.0), true),
      c(Tensor::full({2}, 0.5, DType::f16), true);
  const Variable y = a * b, z = a * c;
  EXPECT_EQ(y.data().dtype(), DType::f32);
  EXPECT_EQ(z.data().dtype(), DType::f32);
  (sum(y) + sum(z)).backward();
  EXPECT_EQ(a.grad().dtype(), DType::bf16);
  EXPECT_EQ(b.grad().dtype(), DType::f32);
  EXPECT_EQ(c.grad().dtype(), DType::f16);
  EXPECT_EQ(numbers(a.grad()), (std::vector<double>{2.5, 2.5}));
}

TEST(Narrow, GradientsOfSeveralUsesAndPassesAddUp) {
  const Variable x(Tensor::full({3}, 3.0, DType::bf16), true);
  for (int pass = 0; pass < 2; ++pass) sum(x * x + x).backward();
  EXPECT_EQ(x.grad().dtype(), DType::bf16);
  EXPECT_EQ(numbers(x.grad()), (std::vector<double>{14, 14, 14}));
}

TEST(Narrow, ALeafMayTakeItsGradientInF32) {
  const Variable x(Tensor::full({2}, 1.0, DType::bf16), true);
  x.set_grad_buffer(Tensor::empty({2}, DType::f32));
  for (int pass = 0; pass < 3; ++pass) sum(x * 0x1.01p-9).backward();  // no bf16 number times 3
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  sum(x).backward();
  EXPECT_EQ(numbers(x.grad()), (std::vector<double>{1 + 3 * 0x1.01p-9, 1 + 3 * 0x1.01p-9}));
}

TEST(Narrow, ALeafWithItsGradientInF32HasOneOfItsOwnTypeElsewhere) {
  const Variable x(Tensor::full({2}, 3.0, DType::bf16), true);
  x.set_grad_buffer(Tensor::empty({2}, DType::f32));
  const Tensor slope = grad(sum(x * x), x).data();
  EXPECT_EQ(slope.dtype(), DType::bf16);
  EXPECT_EQ(numbers(slope), (std::vector<double>{6, 6}));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Narrow, ProductsAreOfTheOperandsType) {
  // With units for bf16 the sum of products is in another order than in f32: on any processor the
  // operands and the result are rounded, no more.
  const Variable a(Tensor::full({3, 64}, 1.0 + 0x1p-7, DType::bf16), true),
      b(Tensor::full({64, 2}, 1.0 - 0x1p-8, DType::bf16), true);
  const Tensor y = matmul(a, b).data();
  EXPECT_EQ(y.dtype(), DType::bf16);
  const double exact = 64 * (1.0 + 0x1p-7) * (1.0 - 0x1p-8);
  for (const double element : numbers(y)) EXPECT_NEAR(element, exact, exact * 0x1p-8);
}

TEST(Narrow, ADerivativeCanBeDifferentiated) {
  const Variable x(Tensor::full({4}, 2.0, DType::bf16), true);
  const Variable slope = grad(sum(x * x * x), x, {.create_graph = true});
  EXPECT_EQ(slope.data().dtype(), DType::bf16);
  EXPECT_EQ(numbers(slope.data()), (std::vector<double>{12, 12, 12, 12}));
  EXPECT_EQ(numbers(grad(sum(slope), x).data()), (std::vector<double>{12, 12, 12, 12}));
}

TEST(Narrow, WhatHasNothingToDoGivesTheVariableItself) {
  const Variable x(Tensor::full({2, 3}, 1.0, DType::bf16), true);
  EXPECT_EQ(sum_to_size(x, {2, 3}).record(), x.record());
  EXPECT_EQ(to(x, DType::bf16).record(), x.record());
}

}  // namespace
}  // namespace lockstep::test
