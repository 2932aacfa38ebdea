// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

Tensor class_targets(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

// The first gradient of an input is written, later ones are added. An input shared by two
// operations tests the addition in every kernel.
TEST(SharedInput, GradientsOfEveryUseAddUp) {
  const Conv2dOptions padded{{1, 1}, {1, 1}, {1, 1}, 1};
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        Variable y = conv2d(v[0], v[1], v[2], padded);
        y = conv2d(y, v[1], v[2], padded);  // weight and bias used twice
        return linear(flatten(max_pool2d(y, {.kernel = 3, .stride = 1, .padding = 1})),
                      flatten(relu(y)), {});  // y used twice
      },
      {random_tensor({2, 2, 2, 2}, 18), random_tensor({2, 2, 3, 3}, 19), random_tensor({2}, 20)});
  expect_gradients(
      [](const std::vector<Variable>& v) {
        const Variable y = linear(linear(v[0], v[1], v[2]), v[1], v[2]);
        return linear(log_softmax(y), dropout(y, 0.3, {1, 0, 0, 0}), {});
      },
      {random_tensor({2, 3}, 21), random_tensor({3, 3}, 22), random_tensor({3}, 23)});
  expect_gradients(
      [](const std::vector<Variable>& v) {
        const Tensor target = class_targets({1, 2}, {2});
        const LossOptions each{.reduction = Reduction::none};
        const Variable a = reshape(cross_entropy(v[0], target, each), {1, 2});
        const Variable b = reshape(nll_loss(v[0], target, each), {1, 2});
        return linear(a, b, {});
      },
      {random_tensor({2, 3}, 24)});
}

}  // namespace
}  // namespace lockstep::test
