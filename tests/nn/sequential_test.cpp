#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <support/larger.hpp>

#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep::nn {
namespace {

double largest_difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  double largest = x.size() == y.size() ? 0.0 : INFINITY;
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    largest = test::larger(largest, std::abs(static_cast<double>(x[i]) - y[i]));
  }
  return largest;
}

/// The layers one by one, so that nothing is fused.
Variable one_by_one(const Sequential& model, Variable x) {
  for (const auto& [name, layer] : model.children()) x = layer->forward(x);
  return x;
}

class Fusion : public testing::TestWithParam<bool> {};

TEST_P(Fusion, GivesTheResultAndGradientsOfTheParts) {
  const bool with_dropout = GetParam();
  manual_seed(11);
  Sequential model;
  model.push_back("conv", std::make_shared<Conv2d>(3, 12, 3));
  if (with_dropout) model.push_back("drop", std::make_shared<Dropout2d>(0.5));
  model.push_back("pool", std::make_shared<MaxPool2d>(2));
  model.push_back("relu", std::make_shared<ReLU>());
  model.push_back("flatten", std::make_shared<Flatten>());
  model.push_back("log_softmax", std::make_shared<LogSoftmax>());
  const Tensor images = uniform({6, 3, 11, 9}, 1.0);
  const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 5, 17, 100, 3, 3}, {6});

  struct Result {
    Tensor output, grad_x, grad_weight, grad_bias;
  };
  const auto run = [&](bool fused) {
    const Variable x(images, true);
    model.zero_grad();
    const RandomContextGuard random({.seed = 9, .step = 4, .first_sample = 32});
    const Variable output = fused ? model(x) : one_by_one(model, x);
    nll_loss(output, target).backward();
    const auto parameters = model.parameters();
    return Result{output.data(), x.grad(), parameters[0].grad().clone(),
                  parameters[1].grad().clone()};
  };
  const Result parts = run(false), fused = run(true);
  EXPECT_LE(largest_difference(fused.output, parts.output), 1e-5);
  EXPECT_LE(largest_difference(fused.grad_x, parts.grad_x), 1e-6);
  EXPECT_LE(largest_difference(fused.grad_weight, parts.grad_weight), 1e-5);
  EXPECT_LE(largest_difference(fused.grad_bias, parts.grad_bias), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutDropout, Fusion, testing::Bool());

TEST(Fusion, TakesImagesOf16Bits) {
  manual_seed(11);
  Sequential model{std::make_shared<Conv2d>(3, 12, 3), std::make_shared<Dropout2d>(0.5),
                   std::make_shared<MaxPool2d>(2), std::make_shared<ReLU>()};
  const Tensor images = uniform({6, 3, 11, 9}, 1.0).to(DType::bf16);
  model.to(DType::bf16);
  const auto run = [&](bool fused) {
    const RandomContextGuard random({.seed = 9, .step = 4});
    const Variable output = fused ? model(Variable(images)) : one_by_one(model, Variable(images));
    EXPECT_EQ(output.data().dtype(), DType::bf16);
    return output.data().to(DType::f32);
  };
  EXPECT_LE(largest_difference(run(true), run(false)), 0.05);  // roundings between the parts
}

TEST(Sequential, UnnamedLayersAreCalledByTheirPlace) {
  const Sequential model{std::make_shared<Linear>(2, 3), std::make_shared<ReLU>(),
                         std::make_shared<Linear>(3, 1)};
  EXPECT_EQ(model.named_parameters()[2].name, "2.weight");
}

TEST(Sequential, EmptyOneReturnsItsInput) {
  Sequential model;
  const Variable x(Tensor::full({2, 2}, 4.0));
  EXPECT_EQ(model(x).data().to_vector<float>(), x.data().to_vector<float>());
}

}  // namespace
}  // namespace lockstep::nn
