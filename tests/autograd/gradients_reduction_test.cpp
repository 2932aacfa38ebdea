// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

const std::vector<Dims>& every_kind_of_dims() {
  static const std::vector<Dims> kinds{{}, {0}, {1}, {-1}, {0, 1}, {2, 0}, {0, 1, 2}};
  return kinds;
}

TEST(SumGradient, AgreesWithCentralDifferencesOverAnyDimensions) {
  for (const Dims& dims : every_kind_of_dims()) {
    for (const bool keepdim : {false, true}) {
      const std::vector<Tensor> inputs{random_tensor({3, 2, 5}, 1)};
      expect_gradients([&](const std::vector<Variable>& v) { return sum(v[0], dims, keepdim); },
                       inputs);
      expect_gradients([&](const std::vector<Variable>& v) { return mean(v[0], dims, keepdim); },
                       inputs);
    }
  }
  expect_gradients([](const std::vector<Variable>& v) { return sum(v[0]) * mean(v[0]); },
                   {random_tensor({}, 2)});
}

TEST(SumGradient, AddsUpWhereTheInputIsUsedTwice) {
  expect_gradients(
      [](const std::vector<Variable>& v) {
        return sum(v[0] * v[0], {1}, true) * mean(v[0], {0}, true) + sum(v[0]) * v[0];
      },
      {random_tensor({3, 4}, 3)});
}

// Random numbers do not tie, so the largest element is the same on both sides of a small step.
TEST(AmaxGradient, AgreesWithCentralDifferencesOverAnyDimensions) {
  for (const Dims& dims : every_kind_of_dims()) {
    expect_gradients([&](const std::vector<Variable>& v) { return amax(v[0], dims, true) * v[0]; },
                     {random_tensor({3, 2, 5}, 4)});
  }
}

TEST(MaxGradient, AgreesWithCentralDifferencesAlongAnyDimension) {
  for (const int dim : {0, 1, 2, -1}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) { return max(v[0], dim, true).values * v[0]; },
        {random_tensor({3, 2, 5}, 5)});
  }
}

TEST(LogsumexpGradient, AgreesWithCentralDifferencesAlongAnyDimension) {
  for (const int dim : {0, 1, 2, -1}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) { return logsumexp(v[0], dim, true) - v[0]; },
        {random_tensor({3, 2, 5}, 6)});
    expect_gradients([&](const std::vector<Variable>& v) { return logsumexp(v[0], dim); },
                     {random_tensor({3, 2, 5}, 7)});
  }
}

}  // namespace
}  // namespace lockstep::test
