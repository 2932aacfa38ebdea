// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/linear_cross_entropy.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/base/error.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

Tensor targets(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

/// Every reduction, with and without weights, an ignored row among them.
std::vector<LossOptions> loss_variants() {
  std::vector<LossOptions> variants;
  for (const auto reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
    for (const bool weighted : {false, true}) {
      LossOptions options;
      options.reduction = reduction;
      options.ignore_index = 2;
      if (weighted) options.class_weight = Tensor::from(std::vector{0.5, 2.0, 1.5, 0.25}, {4});
      variants.push_back(options);
    }
  }
  return variants;
}

TEST(NllLossGradient, AgreesWithCentralDifferences) {
  for (const LossOptions& options : loss_variants()) {
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return nll_loss(v[0], targets({0, 3, 2, 1, 1}, {5}), options);
        },
        {random_tensor({5, 4}, 11)});
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return nll_loss(v[0], targets({0, 3, 2, 1, 1, 0}, {2, 3}), options);
        },
        {random_tensor({2, 4, 3}, 12)});
  }
}

TEST(CrossEntropyGradient, AgreesWithCentralDifferences) {
  for (LossOptions options : loss_variants()) {
    for (const double smoothing : {0.0, 0.2}) {
      options.label_smoothing = smoothing;
      expect_gradients(
          [&](const std::vector<Variable>& v) {
            return cross_entropy(v[0], targets({0, 3, 2, 1, 1}, {5}), options);
          },
          {random_tensor({5, 4}, 13)});
      expect_gradients(
          [&](const std::vector<Variable>& v) {
            return cross_entropy(v[0], targets({0, 3, 2, 1, 1, 0}, {2, 3}), options);
          },
          {random_tensor({2, 4, 3}, 14)});
    }
  }
}

TEST(LinearCrossEntropyGradient, AgreesWithCentralDifferences) {
  for (LossOptions options : loss_variants()) {
    options.label_smoothing = 0.2;
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return linear_cross_entropy(v[0], v[1], targets({0, 3, 2, 1, 1, 0}, {2, 3}), options);
        },
        {random_tensor({2, 3, 5}, 15), random_tensor({4, 5}, 16)});
  }
}

// More rows than a chunk has, and a last chunk that is shorter.
TEST(LinearCrossEntropy, IsTheCrossEntropyOfTheLogits) {
  constexpr std::int64_t rows = 600, width = 5, classes = 4;
  std::vector<std::int64_t> chosen;
  for (std::int64_t r = 0; r < rows; ++r) chosen.push_back(r * 7 % classes);
  const Tensor target = targets(chosen, {rows});
  for (const LossOptions& options : loss_variants()) {
    std::vector<Tensor> results[2];
    for (const bool joined : {false, true}) {
      const Variable x(random_tensor({rows, width}, 17), true);
      const Variable weight(random_tensor({classes, width}, 18), true);
      const Variable loss = joined ? linear_cross_entropy(x, weight, target, options)
                                   : cross_entropy(linear(x, weight, {}), target, options);
      const Variable total = options.reduction == Reduction::none ? sum(loss) : loss;
      total.backward();
      results[joined ? 1 : 0] = {loss.data(), x.grad(), weight.grad()};
    }
    for (std::size_t i = 0; i < 3; ++i) {
      const auto apart = results[0][i].to_vector<double>(),
                 joined = results[1][i].to_vector<double>();
      ASSERT_EQ(apart.size(), joined.size());
      for (std::size_t k = 0; k < apart.size(); ++k) EXPECT_NEAR(apart[k], joined[k], 1e-11);
    }
  }
}

TEST(LinearCrossEntropy, RefusesTargetsThatDoNotFit) {
  const Variable x(random_tensor({2, 3, 5}, 1)), weight(random_tensor({4, 5}, 2));
  EXPECT_THROW(static_cast<void>(linear_cross_entropy(x, weight, targets({0, 1}, {2}))),
               ShapeError);
  EXPECT_THROW(
      static_cast<void>(linear_cross_entropy(x, weight, targets({0, 3, 2, 1, 4, 0}, {2, 3}))),
      InputError);
}

}  // namespace
}  // namespace lockstep::test
