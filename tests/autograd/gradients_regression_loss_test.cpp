// Backward against central differences in double.
#include <gtest/gtest.h>

#include <functional>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/functional/regression_loss.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

class RegressionLoss : public testing::TestWithParam<Reduction> {};

TEST_P(RegressionLoss, GradientAgreesWithCentralDifferencesAlsoWhereUsedTwice) {
  // Between 0 and 1, as probabilities are.
  auto shares = random_tensor({3, 5}, 1).to_vector<double>();
  for (double& share : shares) share = 0.5 + 0.5 * share;
  const Tensor target = Tensor::from(shares, {3, 5});
  using Loss = std::function<Variable(const Variable&, const Tensor&, Reduction)>;
  const std::vector<Loss> losses{
      mse_loss,
      [](const Variable& x, const Tensor& t, Reduction r) {
        return binary_cross_entropy_with_logits(x, t, r);
      },
      l1_loss,
      [](const Variable& x, const Tensor& t, Reduction r) { return smooth_l1_loss(x, t, r, 0.3); },
      [](const Variable& x, const Tensor& t, Reduction r) { return huber_loss(x, t, r, 0.6); },
      [](const Variable& x, const Tensor& t, Reduction r) {
        return poisson_nll_loss(x, t, true, true, 0.0, r);
      },
      [](const Variable& x, const Tensor& t, Reduction r) {
        return poisson_nll_loss(x + 2.0, t, false, false, 0.5, r);
      },
      [](const Variable& x, const Tensor& t, Reduction r) {
        return sigmoid_focal_loss(x, t, 0.25, 2.0, r);
      },
      [](const Variable& x, const Tensor& t, Reduction r) {
        return sigmoid_focal_loss(x, t, -1.0, 1.5, r);
      },
      [](const Variable& x, const Tensor& t, Reduction r) {
        return sigmoid_focal_loss(x, t, 0.6, 0.0, r);
      }};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    SCOPED_TRACE(i);
    const Loss& loss = losses[i];
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return loss(v[0], target, GetParam()) + loss(v[0] * v[0], target, GetParam());
        },
        {random_tensor({3, 5}, 2)});
  }
}

TEST(KlDivLoss, GradientAgreesWithCentralDifferences) {
  auto shares = random_tensor({3, 5}, 1).to_vector<double>();
  for (double& share : shares) share = 1.0 + share;
  shares[4] = 0.0;
  const Tensor target = Tensor::from(shares, {3, 5});
  for (const auto reduction : {KlDivReduction::none, KlDivReduction::mean, KlDivReduction::sum,
                               KlDivReduction::batchmean}) {
    for (const bool log_target : {false, true}) {
      expect_gradients(
          [&](const std::vector<Variable>& v) {
            return kl_div(v[0], target, reduction, log_target) + kl_div(v[0], target, reduction);
          },
          {random_tensor({3, 5}, 2)});
    }
  }
}

TEST(GaussianNllLoss, GradientAgreesWithCentralDifferencesHoweverTheVarianceIsRepeated) {
  const Tensor target = random_tensor({3, 5}, 1);
  for (const Shape& shape : {Shape{3, 5}, Shape{3, 1}, Shape{3}}) {
    for (const auto reduction : {Reduction::none, Reduction::mean}) {
      auto var = random_tensor(shape, 4).to_vector<double>();
      for (double& v : var) v = 1.5 + v;
      expect_gradients(
          [&](const std::vector<Variable>& v) {
            return gaussian_nll_loss(v[0], target, v[1], true, 1e-6, reduction) +
                   gaussian_nll_loss(v[0] * 2.0, target, v[1], false, 1e-6, reduction);
          },
          {random_tensor({3, 5}, 2), Tensor::from(var, shape)});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryReduction, RegressionLoss,
                         testing::Values(Reduction::none, Reduction::mean, Reduction::sum));

}  // namespace
}  // namespace lockstep::test
