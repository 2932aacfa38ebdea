#include <gtest/gtest.h>

#include <lockstep/autograd/functional.hpp>
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

TEST(Mlp, NormActivationAndDropoutFollowEachHiddenLayerInThisOrder) {
  ModelOptions options;
  options.kind = ModelOptions::Kind::mlp;
  options.hidden = {8, 4};
  options.layers = {MlpLayers::Norm::batch, MlpLayers::Activation::silu, 0.25};
  const auto model = make_model(options, {6}, 3);
  std::vector<std::string> names;
  for (const auto& [name, child] : model->children()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"flatten", "fc1", "norm1", "silu1", "dropout1", "fc2",
                                             "norm2", "silu2", "dropout2", "fc3", "log_softmax"}));
  EXPECT_EQ(model->parameter_count(), (6 * 8 + 8 + 16) + (8 * 4 + 4 + 8) + (4 * 3 + 3));
  EXPECT_EQ(model->forward(Variable(uniform({5, 6}, 1.0))).shape(), (Shape{5, 3}));
}

TEST(Mlp, EveryNormAndActivationOfADeckHasAGradientInAllParameters) {
  using Norm = MlpLayers::Norm;
  using Activation = MlpLayers::Activation;
  for (const Norm norm : {Norm::none, Norm::batch, Norm::layer}) {
    for (const Activation activation : {Activation::relu, Activation::gelu, Activation::silu,
                                        Activation::tanh, Activation::sigmoid}) {
      const auto model = mlp({6}, 3, {16}, Head::linear, {norm, activation, 0.0});
      const Variable y = model->forward(Variable(uniform({5, 6}, 1.0)));
      sum(y * y).backward();
      for (const auto& [name, parameter] : model->named_parameters())
        EXPECT_TRUE(parameter.grad().defined()) << name;
    }
  }
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
