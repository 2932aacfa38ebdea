// Layers whose operations golden data and central differences check: names and shapes of their
// parameters, what they do to shapes, what they refuse.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/module_list.hpp>

namespace lockstep {
namespace {

using Shapes = std::map<std::string, Shape>;

Shapes parameters_of(const nn::Module& module) {
  Shapes shapes;
  for (const auto& [name, variable] : module.named_parameters()) shapes[name] = variable.shape();
  return shapes;
}

/// The shape of the result, once the backward has run.
Shape through(nn::Module& module, const Shape& shape) {
  const Variable x(Tensor::full(shape, 0.5), true);
  const Variable y = module.forward(x);
  sum(y).backward();
  EXPECT_EQ(x.grad().shape(), shape);
  return y.shape();
}

TEST(FurtherLayers, OneNumberFillsAllExtents) {
  const auto expect = [](nn::Module&& module, const Shape& in, const Shape& out) {
    EXPECT_EQ(through(module, in), out) << to_string(in) << " " << to_string(out);
  };
  const Shape image{1, 1, 28, 28}, volume{1, 1, 8, 8, 8};
  expect(nn::Conv2d(1, 8, 3, {.padding = 1}), image, {1, 8, 28, 28});
  expect(nn::Conv2d(1, 8, {3, 5}, {.stride = 2}), image, {1, 8, 13, 12});
  expect(nn::Conv3d(1, 2, 3, {.padding = 1}), volume, {1, 2, 8, 8, 8});
  expect(nn::ConvTranspose2d(1, 2, 2, {.stride = 2}), image, {1, 2, 56, 56});
  expect(nn::ConvTranspose3d(1, 2, 2, {.stride = 2}), volume, {1, 2, 16, 16, 16});
  expect(nn::MaxPool2d({.kernel = 3, .stride = 1, .padding = 1}), image, image);
  expect(nn::AdaptiveMaxPool2d(3), image, {1, 1, 3, 3});
  expect(nn::AdaptiveAvgPool2d({3, 2}), image, {1, 1, 3, 2});
  expect(nn::AdaptiveAvgPool3d(2), volume, {1, 1, 2, 2, 2});
  expect(nn::ZeroPad3d(1), volume, {1, 1, 10, 10, 10});
}

TEST(FurtherLayers, StrideOfPoolIsTheKernelUnlessGiven) {
  const auto expect = [](nn::Module&& module, const Shape& in, const Shape& out) {
    EXPECT_EQ(through(module, in), out) << to_string(in) << " " << to_string(out);
  };
  const Shape line{1, 1, 9}, image{1, 1, 9, 9}, volume{1, 1, 9, 9, 9};
  expect(nn::MaxPool1d(3), line, {1, 1, 3});
  expect(nn::MaxPool1d({.kernel = 3, .stride = 2}), line, {1, 1, 4});
  expect(nn::MaxPool2d({.kernel = 3}), image, {1, 1, 3, 3});
  expect(nn::MaxPool2d({.kernel = 3, .stride = 2}), image, {1, 1, 4, 4});
  expect(nn::MaxPool2d({.kernel = {3, 2}}), image, {1, 1, 3, 4});
  expect(nn::MaxPool3d(3), volume, {1, 1, 3, 3, 3});
  expect(nn::MaxPool3d({.kernel = 3, .stride = 2}), volume, {1, 1, 4, 4, 4});
  expect(nn::AvgPool1d(3), line, {1, 1, 3});
  expect(nn::AvgPool1d({.kernel = 3, .stride = 2}), line, {1, 1, 4});
  expect(nn::AvgPool2d({.kernel = 3}), image, {1, 1, 3, 3});
  expect(nn::AvgPool2d({.kernel = 3, .stride = 2}), image, {1, 1, 4, 4});
  expect(nn::AvgPool3d(3), volume, {1, 1, 3, 3, 3});
  expect(nn::AvgPool3d({.kernel = 3, .stride = 2}), volume, {1, 1, 4, 4, 4});
}

// What Sequential fuses with a convolution falls back where windows are not square.
TEST(FurtherLayers, SequentialPoolsWindowsOfAnyExtents) {
  nn::Sequential model{std::make_shared<nn::Conv2d>(1, 2, 3),
                       std::make_shared<nn::MaxPool2d>(PoolOptions<2>{.kernel = {3, 2}}),
                       std::make_shared<nn::ReLU>()};
  Variable x(Tensor::full({1, 1, 11, 8}, 0.5));
  Variable one_by_one = x;
  for (const auto& [name, child] : model.children()) one_by_one = child->forward(one_by_one);
  EXPECT_EQ(model.forward(x).shape(), (Shape{1, 2, 3, 3}));
  EXPECT_EQ(model.forward(x).data().to_vector<float>(), one_by_one.data().to_vector<float>());
}

TEST(FurtherLayers, ParametersHavePyTorchsNamesAndShapes) {
  EXPECT_EQ(parameters_of(nn::Conv1d(4, 6, 3, {.groups = 2})),
            (Shapes{{"weight", {6, 2, 3}}, {"bias", {6}}}));
  EXPECT_EQ(parameters_of(nn::Conv3d(4, 6, {1, 2, 3}, {}, false)),
            (Shapes{{"weight", {6, 4, 1, 2, 3}}}));
  EXPECT_EQ(parameters_of(nn::ConvTranspose1d(4, 6, 3)),
            (Shapes{{"weight", {4, 6, 3}}, {"bias", {6}}}));
  EXPECT_EQ(parameters_of(nn::ConvTranspose2d(4, 6, 3, {.groups = 2})),
            (Shapes{{"weight", {4, 3, 3, 3}}, {"bias", {6}}}));
  EXPECT_EQ(parameters_of(nn::ConvTranspose3d(2, 3, {1, 2, 3})),
            (Shapes{{"weight", {2, 3, 1, 2, 3}}, {"bias", {3}}}));
  EXPECT_EQ(parameters_of(nn::GroupNorm(2, 6)), (Shapes{{"weight", {6}}, {"bias", {6}}}));
  EXPECT_EQ(parameters_of(nn::InstanceNorm2d(6)), Shapes{});
  EXPECT_EQ(parameters_of(nn::InstanceNorm2d(6, 1e-5, true)),
            (Shapes{{"weight", {6}}, {"bias", {6}}}));
  EXPECT_EQ(parameters_of(nn::PReLU(3)), (Shapes{{"weight", {3}}}));
  EXPECT_EQ(nn::PReLU().named_parameters()[0].variable.data().item(), 0.25);
}

TEST(FurtherLayers, ChangeShapesAsPyTorchs) {
  const auto expect = [](nn::Module&& module, const Shape& in, const Shape& out) {
    EXPECT_EQ(through(module, in), out) << to_string(in) << " " << to_string(out);
  };
  expect(nn::Conv1d(4, 6, 3, {.stride = 2}), {2, 4, 9}, {2, 6, 4});
  expect(nn::Conv3d(2, 3, 2), {1, 2, 3, 4, 5}, {1, 3, 2, 3, 4});
  expect(nn::ConvTranspose1d(4, 6, 3), {2, 4, 9}, {2, 6, 11});
  expect(nn::ConvTranspose2d(4, 6, 2, {.stride = {2, 2}}), {2, 4, 5, 6}, {2, 6, 10, 12});
  expect(nn::ConvTranspose3d(2, 3, 2), {1, 2, 3, 4, 5}, {1, 3, 4, 5, 6});
  expect(nn::MaxPool1d({.kernel = {3}}), {2, 3, 11}, {2, 3, 3});
  expect(nn::MaxPool<2>({.kernel = {3, 2}, .ceil_mode = true}), {2, 3, 8, 9}, {2, 3, 3, 5});
  expect(nn::MaxPool3d({.kernel = {2, 2, 2}}), {1, 2, 4, 6, 5}, {1, 2, 2, 3, 2});
  expect(nn::AvgPool1d({.kernel = {2}, .stride = {1}}), {2, 3, 5}, {2, 3, 4});
  expect(nn::AvgPool<2>({.kernel = {2, 3}}), {1, 1, 4, 9}, {1, 1, 2, 3});
  expect(nn::AvgPool3d({.kernel = {2, 2, 2}}), {1, 2, 4, 6, 5}, {1, 2, 2, 3, 2});
  expect(nn::AdaptiveMaxPool2d({3, 2}), {2, 3, 8, 9}, {2, 3, 3, 2});
  expect(nn::AdaptiveAvgPool1d(4), {2, 3, 11}, {2, 3, 4});
  expect(nn::AdaptiveAvgPool3d({1, 2, 3}), {2, 3, 4, 4, 4}, {2, 3, 1, 2, 3});
  expect(nn::ZeroPad2d({1, 2, 3, 4}), {1, 1, 2, 3}, {1, 1, 9, 6});
  expect(nn::ConstantPad1d(2, 1.5), {1, 1, 3}, {1, 1, 7});
  expect(nn::ReflectionPad2d(1), {1, 1, 2, 3}, {1, 1, 4, 5});
  expect(nn::ReplicationPad3d(1), {1, 1, 2, 3, 2}, {1, 1, 4, 5, 4});
  expect(nn::CircularPad1d({2, 1}), {1, 1, 3}, {1, 1, 6});
  expect(nn::Upsample(2.0), {1, 2, 3, 4}, {1, 2, 6, 8});
  expect(nn::Upsample({1.5, 2.0}, Interpolation::bilinear), {1, 2, 4, 4}, {1, 2, 6, 8});
  expect(nn::PixelShuffle(2), {2, 8, 3, 4}, {2, 2, 6, 8});
  expect(nn::PixelUnshuffle(2), {2, 2, 6, 8}, {2, 8, 3, 4});
  expect(nn::GroupNorm(2, 6), {3, 6, 5}, {3, 6, 5});
  expect(nn::InstanceNorm1d(6), {3, 6, 5}, {3, 6, 5});
  expect(nn::InstanceNorm3d(2), {1, 2, 3, 2, 2}, {1, 2, 3, 2, 2});
  expect(nn::LocalResponseNorm(3), {3, 6, 5}, {3, 6, 5});
  expect(nn::Unflatten(1, {2, 3}), {4, 6, 2}, {4, 2, 3, 2});
  expect(nn::GLU(), {4, 6}, {4, 3});
  for (const std::int64_t n : {0, 1}) {
    expect(nn::Conv1d(4, 6, 3), {n, 4, 9}, {n, 6, 7});
    expect(nn::Conv3d(2, 3, 2), {n, 2, 3, 4, 5}, {n, 3, 2, 3, 4});
    expect(nn::ConvTranspose2d(4, 6, 2), {n, 4, 5, 6}, {n, 6, 6, 7});
    expect(nn::GroupNorm(2, 6), {n, 6, 5}, {n, 6, 5});
    expect(nn::MaxPool1d({.kernel = {3}}), {n, 3, 11}, {n, 3, 3});
    expect(nn::ReflectionPad2d(1), {n, 1, 2, 3}, {n, 1, 4, 5});
    expect(nn::Upsample(2.0), {n, 2, 3, 4}, {n, 2, 6, 8});
  }
}

TEST(FurtherLayers, RefusalsNameTheAcceptedArguments) {
  const auto expect = [](const std::function<void()>& f, const char* part) {
    try {
      f();
      ADD_FAILURE() << "nothing was refused: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const auto run = [](nn::Module&& module, const Shape& shape) {
    static_cast<void>(module.forward(Variable(Tensor::zeros(shape))));
  };
  expect([&] { nn::GroupNorm(4, 6); }, "must divide");
  expect([&] { nn::Conv1d(4, 6, 3, {.groups = 3}); }, "groups (3)");
  expect([&] { run(nn::Conv1d(4, 6, 3), {2, 4, 5, 5}); }, "three dimensions");
  expect([&] { run(nn::Conv1d(4, 6, 3), {2, 5, 5}); }, "channels");
  expect([&] { run(nn::Conv3d(2, 3, 2), {1, 2, 1, 4, 5}); }, "larger than the padded input");
  expect([&] { run(nn::ConvTranspose2d(4, 6, 3), {1, 3, 4, 4}); }, "channels");
  expect(
      [&] {
        run(nn::ConvTranspose1d(4, 6, 3, {.output_padding = {1}}), {1, 4, 4});
      },
      "output_padding");
  expect(
      [&] {
        run(nn::MaxPool1d({.kernel = {3}, .padding = {2}}), {1, 3, 9});
      },
      "half the kernel");
  expect([&] { run(nn::MaxPool3d({.kernel = {3, 1, 1}}), {1, 3, 2, 2, 2}); }, "larger than");
  expect([&] { run(nn::AdaptiveMaxPool1d(0), {1, 3, 2}); }, "neither may be empty");
  expect([&] { run(nn::ReflectionPad1d(3), {1, 1, 3}); }, "at most 2");
  expect([&] { run(nn::ZeroPad2d(-2), {1, 1, 3, 3}); }, "a negative extent");
  expect(
      [&] {
        run(nn::Upsample({2.0}, Interpolation::bilinear), {1, 1, 3});
      },
      "bilinear and bicubic [N, C, H, W]");
  expect([&] { run(nn::PixelShuffle(2), {1, 6, 2, 2}); }, "square");
  expect([&] { run(nn::InstanceNorm2d(3), {1, 3, 4}); }, "4 dimensions");
  expect([&] { run(nn::InstanceNorm1d(3), {1, 3, 1}); }, "more than one value");
  expect([&] { run(nn::LocalResponseNorm(0), {1, 3, 1}); }, "at least 1");
  expect([&] { run(nn::Unflatten(1, {2, 2}), {1, 3}); }, "product");
  expect([&] { run(nn::Dropout1d(0.5), {1, 3}); }, "[N, C, L]");
}

TEST(ChannelDropout, DropsWholeChannels) {
  nn::Dropout1d lines(0.5);
  nn::Dropout3d volumes(0.5);
  const auto check = [](nn::Module& dropout, const Shape& shape, std::size_t inner) {
    const auto y = dropout.forward(Variable(Tensor::full(shape, 1.0))).data().to_vector<float>();
    std::size_t dropped = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_TRUE(y[i] == 0.0F || y[i] == 2.0F);
      EXPECT_EQ(y[i], y[i / inner * inner]);
      if (y[i] == 0.0F) ++dropped;
    }
    EXPECT_GT(dropped, y.size() / 4);
    EXPECT_LT(dropped, y.size() * 3 / 4);
  };
  check(lines, {20, 20, 6}, 6);
  check(volumes, {20, 20, 2, 3, 2}, 12);
}

TEST(ModuleContainers, HoldModulesUnderPyTorchsNames) {
  nn::ModuleList list{std::make_shared<nn::Linear>(2, 3), std::make_shared<nn::Linear>(3, 1)};
  EXPECT_EQ(parameters_of(list),
            (Shapes{{"0.weight", {3, 2}}, {"0.bias", {3}}, {"1.weight", {1, 3}}, {"1.bias", {1}}}));
  const Variable x(Tensor::zeros({4, 2}));
  EXPECT_EQ(list[1](list[0](x)).shape(), (Shape{4, 1}));
  EXPECT_THROW(static_cast<void>(list[2]), Error);
  EXPECT_THROW(static_cast<void>(list.forward(x)), Error);

  nn::ModuleDict dict{{"up", std::make_shared<nn::Linear>(2, 3)}};
  dict.insert("down", std::make_shared<nn::Linear>(3, 2));
  EXPECT_EQ(dict.size(), 2U);
  EXPECT_TRUE(dict.contains("down"));
  EXPECT_FALSE(dict.contains("left"));
  EXPECT_EQ(dict["down"](dict["up"](x)).shape(), (Shape{4, 2}));
  EXPECT_EQ(parameters_of(dict).count("down.weight"), 1U);
  EXPECT_THROW(static_cast<void>(dict["left"]), Error);
  EXPECT_THROW(static_cast<void>(dict.forward(x)), Error);
}

TEST(FurtherActivations, EqualTheirFunctions) {
  const Variable x(Tensor::from(std::vector<float>{-4.0F, -0.5F, 0.0F, 0.5F, 7.0F}, {5}));
  const std::vector<std::pair<std::shared_ptr<nn::Module>, Variable>> layers{
      {std::make_shared<nn::LeakyReLU>(0.2), leaky_relu(x, 0.2)},
      {std::make_shared<nn::ELU>(0.2), elu(x, 0.2)},
      {std::make_shared<nn::CELU>(0.2), celu(x, 0.2)},
      {std::make_shared<nn::SELU>(), selu(x)},
      {std::make_shared<nn::Softplus>(2.0, 5.0), softplus(x, 2.0, 5.0)},
      {std::make_shared<nn::Softsign>(), softsign(x)},
      {std::make_shared<nn::ReLU6>(), relu6(x)},
      {std::make_shared<nn::Hardtanh>(-2.0, 3.0), hardtanh(x, -2.0, 3.0)},
      {std::make_shared<nn::Hardsigmoid>(), hardsigmoid(x)},
      {std::make_shared<nn::Hardswish>(), hardswish(x)},
      {std::make_shared<nn::Mish>(), mish(x)},
      {std::make_shared<nn::LogSigmoid>(), logsigmoid(x)},
      {std::make_shared<nn::PReLU>(), leaky_relu(x, 0.25)}};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    EXPECT_EQ(layers[i].first->forward(x).data().to_vector<float>(),
              layers[i].second.data().to_vector<float>())
        << i;
  }
}

}  // namespace
TEST(FurtherLayers, NormsHaveParametersAsPyTorchsArgumentsSay) {
  EXPECT_EQ(parameters_of(nn::LayerNorm(6)), (Shapes{{"weight", {6}}, {"bias", {6}}}));
  EXPECT_EQ(parameters_of(nn::LayerNorm(6, 1e-5, true, false)), (Shapes{{"weight", {6}}}));
  EXPECT_EQ(parameters_of(nn::LayerNorm(6, 1e-5, false)), Shapes{});
  EXPECT_EQ(parameters_of(nn::RMSNorm(6, 1e-5, false)), Shapes{});
  // PyTorch's third argument is the momentum: 0.1 is not "true".
  static_assert(!std::is_constructible_v<nn::InstanceNorm2d, int, double, double>);
  const Variable x(Tensor::from(std::vector<float>{1, 2, 3, 5, 9, 13}, {2, 3}));
  for (const auto& layer :
       std::vector<std::pair<std::shared_ptr<nn::Module>, std::shared_ptr<nn::Module>>>{
           {std::make_shared<nn::LayerNorm>(3), std::make_shared<nn::LayerNorm>(3, 1e-5, false)},
           {std::make_shared<nn::RMSNorm>(3), std::make_shared<nn::RMSNorm>(3, 1e-6, false)}}) {
    EXPECT_EQ((*layer.first)(x).data().to_vector<float>(),
              (*layer.second)(x).data().to_vector<float>());
  }
}

}  // namespace lockstep
