// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/loss.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

class RegressionLoss : public testing::TestWithParam<Reduction> {};

TEST_P(RegressionLoss, GradientAgreesWithCentralDifferencesAlsoWhereUsedTwice) {
  const Tensor target = random_tensor({3, 5}, 1);
  for (const auto& loss : {mse_loss, binary_cross_entropy_with_logits}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return loss(v[0], target, GetParam()) + loss(v[0] * v[0], target, GetParam());
        },
        {random_tensor({3, 5}, 2)});
  }
}

INSTANTIATE_TEST_SUITE_P(EveryReduction, RegressionLoss,
                         testing::Values(Reduction::none, Reduction::mean, Reduction::sum));

}  // namespace
}  // namespace lockstep::test
