// Backward against central differences in double.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
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

constexpr LossGradients both_times[] = {LossGradients::in_forward, LossGradients::in_backward};

TEST(LinearCrossEntropyGradient, AgreesWithCentralDifferences) {
  for (LossOptions options : loss_variants()) {
    options.label_smoothing = 0.2;
    for (const LossGradients when : both_times) {
      expect_gradients(
          [&](const std::vector<Variable>& v) {
            return linear_cross_entropy(v[0], v[1], targets({0, 3, 2, 1, 1, 0}, {2, 3}), options,
                                        when);
          },
          {random_tensor({2, 3, 5}, 15), random_tensor({4, 5}, 16)});
    }
  }
}

// More rows than a chunk has, and a last chunk that is shorter.
Tensor targets_of_many_rows() {
  std::vector<std::int64_t> chosen;
  for (std::int64_t r = 0; r < 600; ++r) chosen.push_back(r * 7 % 4);
  return targets(chosen, {600});
}

void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto expected = a.to_vector<double>(), found = b.to_vector<double>();
  for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(expected[k], found[k], 1e-11);
}

TEST(LinearCrossEntropy, IsTheCrossEntropyOfTheLogits) {
  const Tensor target = targets_of_many_rows();
  for (const LossOptions& options : loss_variants()) {
    const auto results = [&](const auto& loss_of) {
      const Variable x(random_tensor({600, 5}, 17), true), weight(random_tensor({4, 5}, 18), true);
      // Gradients are added to what is there, and are those of a multiple of the loss.
      sum(x).backward();
      sum(weight).backward();
      const Variable loss = loss_of(x, weight);
      (-3.0 * (options.reduction == Reduction::none ? sum(loss) : loss)).backward();
      return std::vector<Tensor>{loss.data(), x.grad(), weight.grad()};
    };
    const auto apart = results([&](const Variable& x, const Variable& weight) {
      return cross_entropy(linear(x, weight, {}), target, options);
    });
    for (const LossGradients when : both_times) {
      const auto joined = results([&](const Variable& x, const Variable& weight) {
        return linear_cross_entropy(x, weight, target, options, when);
      });
      for (std::size_t i = 0; i < 3; ++i) expect_close(apart[i], joined[i]);
    }
  }
}

TEST(LinearCrossEntropy, GivesTheGradientsThatAreAskedForAsOftenAsTheyAre) {
  const Tensor target = targets_of_many_rows();
  const Variable x(random_tensor({600, 5}, 17), true), weight(random_tensor({4, 5}, 18), true);
  const Variable apart = cross_entropy(linear(x, weight, {}), target);
  const Tensor of_x = grad(apart, x, {.retain_graph = true}).data();
  const Tensor of_weight = grad(apart, weight).data();
  for (const LossGradients when : both_times) {
    const auto loss = [&](const Variable& in, const Variable& w) {
      return linear_cross_entropy(in, w, target, {}, when);
    };
    const Variable both = loss(x, weight);
    for (const int again : {1, 2}) {
      SCOPED_TRACE(again);
      expect_close(of_x, grad(both, x, {.retain_graph = true}).data());
      expect_close(of_weight, grad(both, weight, {.retain_graph = true}).data());
    }
    expect_close(of_x, grad(loss(x, Variable(weight.data())), x).data());
    expect_close(of_weight, grad(loss(Variable(x.data()), weight), weight).data());
    {
      const NoGradGuard no_grad;
      EXPECT_FALSE(loss(x, weight).requires_grad());
    }
  }
}

TEST(LinearCrossEntropy, HasNoGradientWhereNoRowCounts) {
  const LossOptions options{.ignore_index = 2, .label_smoothing = 0.1};
  for (const LossGradients when : both_times) {
    for (const std::int64_t rows : {0, 3}) {
      const Variable x(random_tensor({rows, 5}, 17), true), weight(random_tensor({4, 5}, 18), true);
      const Tensor target =
          targets(std::vector<std::int64_t>(static_cast<std::size_t>(rows), 2), {rows});
      const Variable loss = linear_cross_entropy(x, weight, target, options, when);
      EXPECT_TRUE(std::isnan(loss.data().item()));
      loss.backward();
      EXPECT_EQ(x.grad().to_vector<double>(),
                std::vector<double>(static_cast<std::size_t>(5 * rows), 0.0));
      EXPECT_EQ(weight.grad().to_vector<double>(), std::vector<double>(20, 0.0));
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
