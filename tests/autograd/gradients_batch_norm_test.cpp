// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/batch_norm.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

struct BatchNormCase {
  const char* name;
  Shape x;
  bool training, residual, relu;
};

class BatchNormGradient : public testing::TestWithParam<BatchNormCase> {};

TEST_P(BatchNormGradient, AgreesWithCentralDifferences) {
  const auto& c = GetParam();
  const Shape channels{c.x[1]};
  const Tensor variance = random_tensor(channels, 5);
  variance.fill(0.7);
  const BatchNormStatistics statistics{random_tensor(channels, 4), variance};
  std::vector<Tensor> inputs{random_tensor(c.x, 1), random_tensor(channels, 2),
                             random_tensor(channels, 3)};
  if (c.residual) inputs.push_back(random_tensor(c.x, 6));
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        return batch_norm(v[0], v[1], v[2], statistics, c.training, 0.1, 1e-2,
                          c.residual ? v[3] : Variable(), c.relu);
      },
      inputs);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BatchNormGradient,
    testing::Values(BatchNormCase{"images", {3, 2, 5, 4}, true, false, false},
                    BatchNormCase{"images_relu", {3, 2, 5, 4}, true, false, true},
                    BatchNormCase{"residual_relu", {2, 3, 3, 7}, true, true, true},
                    BatchNormCase{"residual", {2, 3, 3, 3}, true, true, false},
                    BatchNormCase{"rows", {7, 5}, true, false, false},
                    BatchNormCase{"many_channels", {5, 19}, true, true, true},
                    BatchNormCase{"sequences", {2, 3, 9}, true, false, false},
                    BatchNormCase{"one_sample", {1, 2, 4, 5}, true, false, false},
                    BatchNormCase{"evaluation", {2, 3, 3, 4}, false, false, false},
                    BatchNormCase{"evaluation_residual_relu", {2, 3, 3, 4}, false, true, true}),
    [](const auto& test) { return test.param.name; });

TEST(BatchNormGradient, WithoutAffineOrRunningStatisticsAgreesWithCentralDifferences) {
  const BatchNormStatistics kept{random_tensor({2}, 4), Tensor::full({2}, 0.7, DType::f64)};
  const std::vector<Tensor> x{random_tensor({3, 2, 5}, 1)};
  for (const auto& statistics : {kept, BatchNormStatistics{}}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return batch_norm(v[0], {}, {}, statistics, true, 0.1, 1e-2);
        },
        x);
  }
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        return batch_norm(v[0], {}, {}, kept, false, 0.1, 1e-2);
      },
      x);
  expect_gradients(
      [](const std::vector<Variable>& v) {
        return batch_norm(v[0], v[1], {}, {}, true, 0.1, 1e-2);
      },
      {x[0], random_tensor({2}, 2)});
}

TEST(BatchNormGradient, OfAnInputThatIsItsOwnResidualIsTheSumOfBoth) {
  const BatchNormStatistics statistics{Tensor::zeros({2}, DType::f64),
                                       Tensor::zeros({2}, DType::f64)};
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        return batch_norm(v[0], v[1], v[2], statistics, true, 0.1, 1e-2, v[0], true);
      },
      {random_tensor({3, 2, 3, 3}, 1), random_tensor({2}, 2), random_tensor({2}, 3)});
}

}  // namespace
}  // namespace lockstep::test
