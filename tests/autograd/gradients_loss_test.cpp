// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/loss.hpp>

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

}  // namespace
}  // namespace lockstep::test
