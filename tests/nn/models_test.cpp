#include <gtest/gtest.h>

#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/models/mlp.hpp>

namespace lockstep::nn {
namespace {

TEST(ConvNet, ParametersAreThoseOfThePyTorchTutorial) {
  const auto model = convnet({1, 28, 28}, 10);
  EXPECT_EQ(model->parameter_count(), 21840);
  std::vector<std::string> names;
  for (const auto& p : model->named_parameters())
    names.push_back(p.name + to_string(p.variable.shape()));
  EXPECT_EQ(names, (std::vector<std::string>{"conv1.weight[10, 1, 5, 5]", "conv1.bias[10]",
                                             "conv2.weight[20, 10, 5, 5]", "conv2.bias[20]",
                                             "fc1.weight[50, 320]", "fc1.bias[50]",
                                             "fc2.weight[10, 50]", "fc2.bias[10]"}));
}

TEST(ConvNet, TakesColourImagesOfOtherSizes) {
  const auto model = convnet({3, 33, 20}, 7);
  EXPECT_EQ(model->forward(Variable(uniform({2, 3, 33, 20}, 1.0))).shape(), (Shape{2, 7}));
}

TEST(ConvNet, ImagesThatAreTooSmallAreRefusedWithTheirShape) {
  try {
    static_cast<void>(convnet({1, 15, 28}, 10));
    FAIL() << "it was accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("[1, 15, 28]"), std::string::npos) << error.what();
  }
}

TEST(Mlp, HasALayerForEveryHiddenSizeAndOneMore) {
  const auto model = mlp({1, 28, 28}, 10, {512, 256});
  EXPECT_EQ(model->parameter_count(), 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10);
  EXPECT_EQ(model->forward(Variable(uniform({3, 1, 28, 28}, 1.0))).shape(), (Shape{3, 10}));
}

// What a rank without samples runs where forward is collective (parallel/sync_batch_norm.hpp).
TEST(Zoo, EveryModelTakesABatchWithoutSamplesAndGetsZeroGradients) {
  using Kind = ModelOptions::Kind;
  for (const Kind kind : {Kind::convnet, Kind::mlp, Kind::resnet18, Kind::transformer}) {
    ModelOptions options;
    options.kind = kind;
    options.transformer.depth = 1;
    const auto model = make_model(options, {1, 16, 16}, 10);
    const Variable y = model->forward(Variable(Tensor::empty({0, 1, 16, 16})));
    EXPECT_EQ(y.shape(), (Shape{0, 10}));
    sum(y).backward();
    for (const auto& [name, parameter] : model->named_parameters()) {
      ASSERT_TRUE(parameter.grad().defined()) << name;
      const auto gradient = parameter.grad().to_vector<float>();
      EXPECT_EQ(gradient, std::vector<float>(gradient.size())) << name;
    }
  }
}

}  // namespace
}  // namespace lockstep::nn
