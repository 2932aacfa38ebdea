#include <lockstep/nn/describe.hpp>

#include <gtest/gtest.h>

#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep::nn {
namespace {

const LayerDescription& layer(const std::vector<LayerDescription>& layers,
                              const std::string& name) {
  for (const auto& l : layers) {
    if (l.name == name) return l;
  }
  throw Error("no layer " + name);
}

TEST(DescribeLayers, ListsShapesParametersAndFlopsInOrderOfUse) {
  const auto model = convnet({1, 28, 28}, 10);
  const auto layers = describe_layers(*model, {1, 28, 28});
  ASSERT_EQ(layers.size(), 13U);
  EXPECT_EQ(layers.front().name, "conv1");
  EXPECT_EQ(layers.front().type, "Conv2d");
  EXPECT_EQ(layers.front().output, (Shape{10, 24, 24}));
  EXPECT_EQ(layers.front().parameters, 260);
  EXPECT_EQ(layers.front().flops, 2 * 10 * 24 * 24 * 25);
  EXPECT_EQ(layer(layers, "conv2").flops, 2 * 20 * 8 * 8 * 250);
  EXPECT_EQ(layer(layers, "fc1").flops, 2 * 320 * 50);
  EXPECT_EQ(layer(layers, "fc2").parameters, 510);
  EXPECT_EQ(layer(layers, "pool2").output, (Shape{20, 4, 4}));
  EXPECT_EQ(layers.back().type, "LogSoftmax");
  std::int64_t parameters = 0;
  for (const auto& l : layers) parameters += l.parameters;
  EXPECT_EQ(parameters, model->parameter_count());
}

// Their names are those of their classes.
TEST(DescribeLayers, NamesTheLayersOfAnyDimensionAsPyTorchDoes) {
  Sequential model{std::make_shared<Conv1d>(1, 2, 3), std::make_shared<MaxPool1d>(2),
                   std::make_shared<AvgPool1d>(2), std::make_shared<AdaptiveMaxPool1d>(4),
                   std::make_shared<AdaptiveAvgPool1d>(2)};
  std::vector<std::string> types;
  for (const auto& l : describe_layers(model, {1, 34})) types.push_back(l.type);
  EXPECT_EQ(types, (std::vector<std::string>{"Conv1d", "MaxPool1d", "AvgPool1d",
                                             "AdaptiveMaxPool1d", "AdaptiveAvgPool1d"}));
}

TEST(DescribeLayers, CountsTheFusedPathLikeItsParts) {
  const auto model = convnet({1, 28, 28}, 10);
  std::int64_t apart = 0;
  for (const auto& l : describe_layers(*model, {1, 28, 28})) apart += l.flops;
  const NoGradGuard no_grad;
  const FlopCounter together;
  static_cast<void>((*model)(Variable(Tensor::zeros({1, 1, 28, 28}))));
  EXPECT_EQ(together.flops(), apart);
}

TEST(DescribeLayers, RestoresTheTrainingMode) {
  const auto model = convnet({1, 28, 28}, 10);
  static_cast<void>(describe_layers(*model, {1, 28, 28}));
  EXPECT_TRUE(model->is_training());
  model->eval();
  static_cast<void>(describe_layers(*model, {1, 28, 28}));
  EXPECT_FALSE(model->is_training());
}

TEST(DescribeLayers, RestoresTheModeOfEachLayerAlsoAfterAnError) {
  const auto frozen = std::make_shared<BatchNorm1d>(4);
  Sequential model{std::make_shared<Linear>(4, 4), frozen};
  frozen->eval();
  static_cast<void>(describe_layers(model, Shape{4}));
  EXPECT_TRUE(model.is_training());
  EXPECT_FALSE(frozen->is_training());
  EXPECT_THROW(static_cast<void>(describe_layers(model, Shape{5})), ShapeError);
  EXPECT_TRUE(model.is_training());
  EXPECT_FALSE(frozen->is_training());
}

/// A layer with parameters of its own beside a child, as attention has.
struct Scaled : Module {
  Variable bias = register_parameter("bias", Tensor::zeros({4}));
  std::shared_ptr<Linear> inner = register_module("inner", std::make_shared<Linear>(6, 4, false));
  Variable forward(const Variable& x) override { return (*inner)(x); }
};

TEST(DescribeLayers, GivesContainersTheirOwnPartOnly) {
  Sequential model{std::make_shared<Scaled>()};
  const auto layers = describe_layers(model, {6});
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].name, "0");
  EXPECT_EQ(layers[0].type, "Scaled");
  EXPECT_EQ(layers[0].parameters, 4);
  EXPECT_EQ(layers[0].flops, 0);
  EXPECT_EQ(layers[1].name, "0.inner");
  EXPECT_EQ(layers[1].parameters, 24);
  EXPECT_EQ(layers[1].flops, 48);
}

/// Calls its layers by forward(), which no hook sees.
struct Direct : Module {
  std::shared_ptr<Linear> first = register_module("first", std::make_shared<Linear>(6, 4));
  std::shared_ptr<Linear> second = register_module("second", std::make_shared<Linear>(4, 2));
  Variable forward(const Variable& x) override { return (*second)(first->forward(x)); }
};

TEST(DescribeLayers, ListsModulesThatAreCalledByForwardWithoutAShape) {
  Direct model;
  const auto layers = describe_layers(model, {6});
  std::vector<std::string> names;
  std::int64_t parameters = 0;
  for (const auto& layer : layers) {
    names.push_back(layer.name);
    parameters += layer.parameters;
    EXPECT_EQ(layer.is_seen, layer.name != "first");
  }
  EXPECT_EQ(names, (std::vector<std::string>{"", "second", "first"})) << "the model, for its FLOPs";
  EXPECT_EQ(parameters, model.parameter_count());
}

struct Silent : ForwardHook {
  void before(const Module&, const Variable&) override {}
  void after(const Module&, Variable&) override {}
};

TEST(ForwardHook, OnlyOneMayBeActive) {
  EXPECT_EQ(ForwardHook::current(), nullptr);
  {
    const Silent first;
    EXPECT_EQ(ForwardHook::current(), &first);
    EXPECT_THROW(const Silent second, Error);
  }
  EXPECT_EQ(ForwardHook::current(), nullptr);
}

}  // namespace
}  // namespace lockstep::nn
