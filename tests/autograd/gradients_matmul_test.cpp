// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/matmul.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

TEST(MatmulGradient, AgreesWithCentralDifferencesForEveryKindOfOperands) {
  const std::vector<std::pair<Shape, Shape>> operands{
      {{3, 4}, {4, 5}},       {{4}, {4, 5}},
      {{3, 4}, {4}},          {{4}, {4}},
      {{2, 3, 4}, {4, 5}},    {{3, 4}, {2, 4, 5}},
      {{2, 3, 4}, {2, 4, 5}}, {{2, 1, 3, 4}, {5, 4, 2}},
      {{4}, {2, 4, 3}},       {{2, 3, 4}, {4}},
      {{1, 3, 4}, {2, 4, 5}}, {{2, 2, 3, 4}, {2, 1, 4, 5}},
      {{1, 1, 3, 4}, {4, 5}}, {{2, 3, 4}, {1, 4, 5}},
      {{3, 1, 1}, {1, 7}}};
  for (const auto& [a, b] : operands) {
    SCOPED_TRACE(to_string(a) + " by " + to_string(b));
    expect_gradients([](const std::vector<Variable>& v) { return matmul(v[0], v[1]); },
                     {random_tensor(a, 1), random_tensor(b, 2)});
  }
  expect_gradients([](const std::vector<Variable>& v) { return bmm(v[0], v[1]); },
                   {random_tensor({2, 3, 4}, 3), random_tensor({2, 4, 5}, 4)});
}

TEST(MatmulGradient, AddsUpWhereAnOperandIsUsedTwice) {
  expect_gradients([](const std::vector<Variable>& v) { return matmul(matmul(v[0], v[0]), v[0]); },
                   {random_tensor({3, 3}, 5)});
  expect_gradients([](const std::vector<Variable>& v) { return matmul(v[0], matmul(v[1], v[0])); },
                   {random_tensor({2, 3, 3}, 6), random_tensor({3, 3}, 7)});
}

}  // namespace
}  // namespace lockstep::test
