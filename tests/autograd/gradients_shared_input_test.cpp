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
        return linear(flatten(max_pool2d(y, {.kernel = 3, .stride = 1, .padding = 1}), 1),
                      flatten(relu(y), 1), {});  // y used twice
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

// An operation may be given one variable twice.
TEST(SharedInput, GradientsOfBothPlacesInOneOperationAddUp) {
  const auto expect_of = [](const auto& f, const Shape& shape) {
    expect_gradients([&](const std::vector<Variable>& v) { return f(v[0]); },
                     {random_tensor(shape, 25)});
    // As the result of an operation, and with a gradient that is there before.
    expect_gradients([&](const std::vector<Variable>& v) { return f(relu(v[0]) + v[0]); },
                     {random_tensor(shape, 26)});
  };
  expect_of([](const Variable& z) { return linear(z, z, {}); }, {3, 4});
  expect_of([](const Variable& z) { return matmul(z, z); }, {2, 3, 3});
  expect_of([](const Variable& z) { return mul(z, z); }, {5});
  expect_of([](const Variable& z) { return conv2d(z, z, {}, Conv2dOptions{}); }, {2, 2, 3, 3});
  for (const auto reduction : {Reduction::none, Reduction::mean}) {
    for (const auto when : {LossGradients::in_forward, LossGradients::in_backward}) {
      expect_of(
          [&](const Variable& z) {
            return linear_cross_entropy(z, z, class_targets({1, 0, 2, 3, 1}, {5}),
                                        {.reduction = reduction}, when);
          },
          {5, 4});
    }
  }
}

TEST(SharedInput, InSixteenBitsIsRoundedFromTheSumOfBothPlaces) {
  const Variable narrow(random_tensor({5, 4}, 27).to(DType::bf16), true);
  const Variable wide(narrow.data().to(DType::f32), true);
  for (const Variable& z : {narrow, wide}) {
    sum(linear_cross_entropy(z, z, class_targets({1, 0, 2, 3, 1}, {5}),
                             {.reduction = Reduction::none}))
        .backward();
  }
  const auto found = narrow.grad().to(DType::f32).to_vector<float>(),
             exact = wide.grad().to_vector<float>();
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(found[i], exact[i], 0.03) << i;
}

}  // namespace
}  // namespace lockstep::test
