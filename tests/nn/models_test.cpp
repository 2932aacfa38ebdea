#include <gtest/gtest.h>

#include <lockstep/autograd/check_gradients.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/models/resnet.hpp>
#include <lockstep/nn/models/transformer.hpp>
#include <lockstep/nn/models/unet.hpp>

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
  const MlpOptions options{.hidden = {8, 4},
                           .layers = {MlpLayers::Norm::batch, MlpLayers::Activation::silu, 0.25}};
  const auto model = make_model({.kind = options}, {6}, 3);
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
  for (const ModelKind& kind :
       {ModelKind(ConvnetOptions()), ModelKind(MlpOptions()), ModelKind(ResNet18Options()),
        ModelKind(TransformerOptions{.depth = 1})}) {
    const auto model = make_model({.kind = kind}, {1, 16, 16}, 10);
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

TEST(UNet, MapsFieldsToFieldsOfTheSameExtents) {
  const auto images = unet({2, 8, 16}, 3, {.channels = 4, .levels = 2});
  std::vector<std::string> names;
  for (const auto& p : images->named_parameters())
    if (p.name.ends_with("weight")) names.push_back(p.name + to_string(p.variable.shape()));
  EXPECT_EQ(names, (std::vector<std::string>{
                       "inc.conv1.weight[4, 2, 3, 3]", "inc.conv2.weight[4, 4, 3, 3]",
                       "down1.conv1.weight[8, 4, 3, 3]", "down1.conv2.weight[8, 8, 3, 3]",
                       "down2.conv1.weight[16, 8, 3, 3]", "down2.conv2.weight[16, 16, 3, 3]",
                       "up1.weight[16, 8, 2, 2]", "merge1.conv1.weight[8, 16, 3, 3]",
                       "merge1.conv2.weight[8, 8, 3, 3]", "up2.weight[8, 4, 2, 2]",
                       "merge2.conv1.weight[4, 8, 3, 3]", "merge2.conv2.weight[4, 4, 3, 3]",
                       "outc.weight[3, 4, 1, 1]"}));
  EXPECT_EQ(images->forward(Variable(uniform({5, 2, 8, 16}, 1.0))).shape(), (Shape{5, 3, 8, 16}));
  const auto volumes = unet({1, 4, 6, 2}, 2,
                            {.channels = 2,
                             .levels = 1,
                             .layers = {MlpLayers::Norm::batch, MlpLayers::Activation::silu, 0.0}});
  EXPECT_EQ(volumes->forward(Variable(uniform({3, 1, 4, 6, 2}, 1.0))).shape(),
            (Shape{3, 2, 4, 6, 2}));
  const ModelOptions options{.kind = UNetOptions()};
  EXPECT_EQ(make_model(options, {2, 8, 8}, {8, 8}, Head::gaussian)
                ->forward(Variable(uniform({1, 2, 8, 8}, 1.0)))
                .shape(),
            (Shape{1, 2, 8, 8}));
  for (const Shape& output : {Shape{8, 4}, Shape{1, 4, 8}, Shape{64}, Shape{}})
    EXPECT_THROW(static_cast<void>(make_model(options, {2, 8, 8}, output, Head::linear)),
                 InputError);
  EXPECT_THROW(static_cast<void>(make_model(options, {2, 8, 8}, {8, 8})), InputError);
  EXPECT_THROW(static_cast<void>(unet({2, 8, 10}, 1, {.levels = 2})), InputError);
}

TEST(UNet, EveryParameterHasTheGradientOfFiniteDifferences) {
  const DTypeGuard precise(DType::f64);
  for (const Shape& sample : {Shape{2, 4, 4}, Shape{1, 2, 4, 2}}) {
    const auto model = unet(sample, 1,
                            {.channels = 2,
                             .levels = 1,
                             .layers = {MlpLayers::Norm::layer, MlpLayers::Activation::tanh, 0.0}});
    const Tensor x = uniform(sample.with_leading(2 * sample[0]), 1.0).to(DType::f64);
    std::vector<std::int64_t> extents{2};
    extents.insert(extents.end(), sample.begin(), sample.end());
    const Variable input(x.reshape(Shape(std::span<const std::int64_t>(extents))));
    std::vector<std::pair<std::string, Variable>> variables;
    for (const auto& [name, variable] : model->named_parameters())
      variables.emplace_back(name, variable);
    const auto loss = [&] {
      const Variable y = model->forward(input);
      return sum(y * y);
    };
    for (const GradientCheck& check : check_gradients(loss, variables, {.elements = 4}))
      EXPECT_TRUE(check.ok()) << check.name << " " << check.gradient << " " << check.difference;
  }
}

}  // namespace
}  // namespace lockstep::nn
