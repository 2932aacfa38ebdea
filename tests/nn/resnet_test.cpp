#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/models/resnet.hpp>
#include <lockstep/nn/random.hpp>
#include <support/golden_file.hpp>

namespace lockstep::nn {
namespace {

/// The state dict of torchvision.models.resnet18(), in its order; only conv1, which is 7 x 7 there,
/// is that of a CIFAR stem.
const std::vector<std::string>& torchvisions_state() {
  static const std::vector<std::string> entries{
      "conv1.weight[64, 3, 3, 3]",
      "bn1.weight[64]",
      "bn1.bias[64]",
      "bn1.running_mean[64]",
      "bn1.running_var[64]",
      "bn1.num_batches_tracked[]",
      "layer1.0.conv1.weight[64, 64, 3, 3]",
      "layer1.0.bn1.weight[64]",
      "layer1.0.bn1.bias[64]",
      "layer1.0.bn1.running_mean[64]",
      "layer1.0.bn1.running_var[64]",
      "layer1.0.bn1.num_batches_tracked[]",
      "layer1.0.conv2.weight[64, 64, 3, 3]",
      "layer1.0.bn2.weight[64]",
      "layer1.0.bn2.bias[64]",
      "layer1.0.bn2.running_mean[64]",
      "layer1.0.bn2.running_var[64]",
      "layer1.0.bn2.num_batches_tracked[]",
      "layer1.1.conv1.weight[64, 64, 3, 3]",
      "layer1.1.bn1.weight[64]",
      "layer1.1.bn1.bias[64]",
      "layer1.1.bn1.running_mean[64]",
      "layer1.1.bn1.running_var[64]",
      "layer1.1.bn1.num_batches_tracked[]",
      "layer1.1.conv2.weight[64, 64, 3, 3]",
      "layer1.1.bn2.weight[64]",
      "layer1.1.bn2.bias[64]",
      "layer1.1.bn2.running_mean[64]",
      "layer1.1.bn2.running_var[64]",
      "layer1.1.bn2.num_batches_tracked[]",
      "layer2.0.conv1.weight[128, 64, 3, 3]",
      "layer2.0.bn1.weight[128]",
      "layer2.0.bn1.bias[128]",
      "layer2.0.bn1.running_mean[128]",
      "layer2.0.bn1.running_var[128]",
      "layer2.0.bn1.num_batches_tracked[]",
      "layer2.0.conv2.weight[128, 128, 3, 3]",
      "layer2.0.bn2.weight[128]",
      "layer2.0.bn2.bias[128]",
      "layer2.0.bn2.running_mean[128]",
      "layer2.0.bn2.running_var[128]",
      "layer2.0.bn2.num_batches_tracked[]",
      "layer2.0.downsample.0.weight[128, 64, 1, 1]",
      "layer2.0.downsample.1.weight[128]",
      "layer2.0.downsample.1.bias[128]",
      "layer2.0.downsample.1.running_mean[128]",
      "layer2.0.downsample.1.running_var[128]",
      "layer2.0.downsample.1.num_batches_tracked[]",
      "layer2.1.conv1.weight[128, 128, 3, 3]",
      "layer2.1.bn1.weight[128]",
      "layer2.1.bn1.bias[128]",
      "layer2.1.bn1.running_mean[128]",
      "layer2.1.bn1.running_var[128]",
      "layer2.1.bn1.num_batches_tracked[]",
      "layer2.1.conv2.weight[128, 128, 3, 3]",
      "layer2.1.bn2.weight[128]",
      "layer2.1.bn2.bias[128]",
      "layer2.1.bn2.running_mean[128]",
      "layer2.1.bn2.running_var[128]",
      "layer2.1.bn2.num_batches_tracked[]",
      "layer3.0.conv1.weight[256, 128, 3, 3]",
      "layer3.0.bn1.weight[256]",
      "layer3.0.bn1.bias[256]",
      "layer3.0.bn1.running_mean[256]",
      "layer3.0.bn1.running_var[256]",
      "layer3.0.bn1.num_batches_tracked[]",
      "layer3.0.conv2.weight[256, 256, 3, 3]",
      "layer3.0.bn2.weight[256]",
      "layer3.0.bn2.bias[256]",
      "layer3.0.bn2.running_mean[256]",
      "layer3.0.bn2.running_var[256]",
      "layer3.0.bn2.num_batches_tracked[]",
      "layer3.0.downsample.0.weight[256, 128, 1, 1]",
      "layer3.0.downsample.1.weight[256]",
      "layer3.0.downsample.1.bias[256]",
      "layer3.0.downsample.1.running_mean[256]",
      "layer3.0.downsample.1.running_var[256]",
      "layer3.0.downsample.1.num_batches_tracked[]",
      "layer3.1.conv1.weight[256, 256, 3, 3]",
      "layer3.1.bn1.weight[256]",
      "layer3.1.bn1.bias[256]",
      "layer3.1.bn1.running_mean[256]",
      "layer3.1.bn1.running_var[256]",
      "layer3.1.bn1.num_batches_tracked[]",
      "layer3.1.conv2.weight[256, 256, 3, 3]",
      "layer3.1.bn2.weight[256]",
      "layer3.1.bn2.bias[256]",
      "layer3.1.bn2.running_mean[256]",
      "layer3.1.bn2.running_var[256]",
      "layer3.1.bn2.num_batches_tracked[]",
      "layer4.0.conv1.weight[512, 256, 3, 3]",
      "layer4.0.bn1.weight[512]",
      "layer4.0.bn1.bias[512]",
      "layer4.0.bn1.running_mean[512]",
      "layer4.0.bn1.running_var[512]",
      "layer4.0.bn1.num_batches_tracked[]",
      "layer4.0.conv2.weight[512, 512, 3, 3]",
      "layer4.0.bn2.weight[512]",
      "layer4.0.bn2.bias[512]",
      "layer4.0.bn2.running_mean[512]",
      "layer4.0.bn2.running_var[512]",
      "layer4.0.bn2.num_batches_tracked[]",
      "layer4.0.downsample.0.weight[512, 256, 1, 1]",
      "layer4.0.downsample.1.weight[512]",
      "layer4.0.downsample.1.bias[512]",
      "layer4.0.downsample.1.running_mean[512]",
      "layer4.0.downsample.1.running_var[512]",
      "layer4.0.downsample.1.num_batches_tracked[]",
      "layer4.1.conv1.weight[512, 512, 3, 3]",
      "layer4.1.bn1.weight[512]",
      "layer4.1.bn1.bias[512]",
      "layer4.1.bn1.running_mean[512]",
      "layer4.1.bn1.running_var[512]",
      "layer4.1.bn1.num_batches_tracked[]",
      "layer4.1.conv2.weight[512, 512, 3, 3]",
      "layer4.1.bn2.weight[512]",
      "layer4.1.bn2.bias[512]",
      "layer4.1.bn2.running_mean[512]",
      "layer4.1.bn2.running_var[512]",
      "layer4.1.bn2.num_batches_tracked[]",
      "fc.weight[1000, 512]",
      "fc.bias[1000]",
  };
  return entries;
}

/// "bn1.weight[64]" to its name and shape.
std::pair<std::string, Shape> parse(const std::string& entry) {
  const auto bracket = entry.find('[');
  std::vector<std::int64_t> extents;
  std::string digits;
  for (const char c : entry.substr(bracket + 1)) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      digits += c;
    } else if (!digits.empty()) {
      extents.push_back(std::stoll(digits));
      digits.clear();
    }
  }
  return {entry.substr(0, bracket), Shape(std::span<const std::int64_t>(extents))};
}

TEST(ResNet18, StateHasTorchvisionsNamesShapesAndOrder) {
  const auto model = resnet18({3, 32, 32}, 1000);
  std::vector<std::string> entries;
  for (const auto& entry : model->state_dict()) {
    entries.push_back(entry.name + to_string(entry.tensor.shape()));
  }
  EXPECT_EQ(entries, torchvisions_state());
  EXPECT_EQ(model->parameter_count(), 11'689'512 - 64 * 3 * (7 * 7 - 3 * 3))
      << "torchvision's count, but for the stem";
  EXPECT_EQ(resnet18({3, 32, 32}, 10)->parameter_count(), 11'173'962);
}

TEST(ResNet18, LoadsAStateDictOfTorchvisionsNamesAndShapes) {
  StateDict state;
  for (const auto& entry : torchvisions_state()) {
    const auto [name, shape] = parse(entry);
    const bool count = name.ends_with("num_batches_tracked");
    state.insert(name, Tensor::full(shape, count ? 7.0 : 0.25, count ? DType::i64 : DType::f32));
  }
  const auto model = resnet18({3, 32, 32}, 1000);
  ASSERT_NO_THROW(model->load_state_dict(state));
  EXPECT_EQ(model->state_dict().at("layer4.1.bn2.num_batches_tracked").item(), 7.0);
  EXPECT_EQ(model->state_dict().at("fc.bias").to_vector<float>().back(), 0.25F);
}

TEST(ResNet18, ConvolutionsStartWithTheVarianceThatKeepsGradientsSize) {
  manual_seed(2);
  const auto model = resnet18({3, 32, 32}, 10);
  for (const auto& [name, variable] : model->named_parameters()) {
    if (variable.shape().dims() != 4) continue;
    double squares = 0, sum = 0;
    for (const float w : variable.data().to_vector<float>()) {
      sum += w;
      squares += static_cast<double>(w) * w;
    }
    const Shape& shape = variable.shape();
    const auto n = static_cast<double>(shape.numel());
    const double variance = 2.0 / static_cast<double>(shape[0] * shape[2] * shape[3]);
    EXPECT_NEAR(squares / n, variance, 5 * variance * std::sqrt(2 / n)) << name;
    EXPECT_LE(std::abs(sum / n), 5 * std::sqrt(variance / n)) << name;
  }
}

TEST(ResNet18, TakesImagesOfAnyChannelsAndSizeFrom8By8) {
  const auto model = resnet18({1, 9, 14}, 7);
  const Variable y = model->forward(Variable(uniform({2, 1, 9, 14}, 1.0)));
  ASSERT_EQ(y.shape(), (Shape{2, 7}));
  const auto values = y.data().to_vector<float>();
  for (int row = 0; row < 2; ++row) {
    double total = 0;
    for (int k = 0; k < 7; ++k) total += std::exp(static_cast<double>(values[row * 7 + k]));
    EXPECT_NEAR(total, 1.0, 1e-5) << "log-probabilities";
  }
}

void expect_its_layers_results(Module& model, const Variable& x, double tolerance) {
  struct Seen : ForwardHook {  // while it lives, every layer runs on its own
    void before(const Module&, const Variable&) override {}
    void after(const Module&, Variable&) override {}
  };
  const auto fused = model.forward(x).data().to_vector<float>();
  const Seen layer_by_layer;
  const auto parts = model.forward(x).data().to_vector<float>();
  for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_NEAR(fused[i], parts[i], tolerance) << i;
}

TEST(ResNet18, FusedAndInChannelBlocksItEqualsItsLayers) {
  manual_seed(4);
  const auto model = resnet18({3, 16, 16}, 10);
  const Variable x(uniform({3, 3, 16, 16}, 1.0));
  expect_its_layers_results(*model, x, 2e-5);
}

TEST(Residual, AddsTheShortcutWhichIsTheInputUnlessGiven) {
  const Variable x(Tensor::from(std::vector<float>{-1, 2}, {1, 2}));
  Residual with_identity(std::make_shared<ReLU>());
  EXPECT_EQ(with_identity(x).data().to_vector<float>(), (std::vector<float>{-1, 4}));
  Residual with_both(std::make_shared<ReLU>(), std::make_shared<ReLU>());
  EXPECT_EQ(with_both(x).data().to_vector<float>(), (std::vector<float>{0, 4}));
  const Residual named(std::make_shared<Linear>(2, 2), std::make_shared<Linear>(2, 2));
  EXPECT_EQ(named.named_parameters()[2].name, "shortcut.weight");
}

TEST(ResNet18, ImagesThatAreTooSmallAreRefusedWithTheirShape) {
  try {
    static_cast<void>(resnet18({3, 7, 32}, 10));
    FAIL() << "it was accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("[3, 7, 32]"), std::string::npos) << error.what();
  }
}

/// The numbers of tests/golden/make_resnet.py.
double noise(std::uint32_t h) {
  for (int round = 0; round < 2; ++round) h = (h ^ h >> 16U) * 0x45D9F3BU;
  h ^= h >> 16U;
  return (h / 4294967296.0 - 0.5) * std::sqrt(12.0);
}

/// The parameters of tests/golden/make_resnet.py.
void fill_with_noise(Module& model) {
  std::uint32_t i = 0;
  for (const auto& [name, parameter] : model.named_parameters()) {
    const Shape& shape = parameter.shape();
    double scale = 0.1, mean = name.ends_with("weight") ? 1.0 : 0.0;
    if (shape.dims() == 4) {
      scale = std::sqrt(2.0 / static_cast<double>(shape[0] * shape[2] * shape[3]));
      mean = 0;
    } else if (shape.dims() == 2) {
      scale = 0.02;
      mean = 0;
    }
    std::vector<double> values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t k = 0; k < values.size(); ++k) {
      values[k] = mean + scale * noise(static_cast<std::uint32_t>(k) + (i << 22U));
    }
    parameter.data().copy_from(Tensor::from(values, shape));
    ++i;
  }
}

class ResNetGolden : public testing::TestWithParam<int> {};

TEST_P(ResNetGolden, ForwardAndBackwardArePyTorchs) {
  const test::GoldenFile golden("resnet.h5");
  const std::string depth = std::to_string(GetParam()) + "/";
  const DTypeGuard double_precision(DType::f64);
  const auto model =
      resnet(GetParam(), {3, 64, 64}, 10, Head::linear, {.stem = ResNetOptions::Stem::imagenet});
  fill_with_noise(*model);
  std::vector<double> pixels(2UL * 3 * 64 * 64);
  for (std::size_t k = 0; k < pixels.size(); ++k) pixels[k] = noise(static_cast<std::uint32_t>(k));
  const Variable logits = model->forward(Variable(Tensor::from(pixels, {2, 3, 64, 64})));
  const Variable loss = cross_entropy(logits, Tensor::from(std::vector<std::int64_t>{1, 7}, {2}));
  loss.backward();

  const auto expect = [&](const std::string& name, const Tensor& value) {
    const std::string path = depth + name + "_f64";
    const double largest = golden.number(path, "ref_max_abs");
    EXPECT_LE(test::max_difference(value, golden.tensor(path)), 1e-9 * largest) << name;
  };
  expect("logits", logits.data());
  expect("loss", loss.data());
  for (const auto& [name, parameter] : model->named_parameters()) {
    Tensor part = parameter.grad();
    if (name == "conv1.weight") part = part.slice(0, 4);
    if (name == "layer4.0.conv2.weight") {
      part = part.slice(0, 1);
      part = part.reshape({512, 3, 3}).slice(0, 16).reshape({1, 16, 3, 3});
    }
    if (golden.has(depth + name + "_f64")) expect(name, part);
  }
  EXPECT_EQ(golden.unread(std::to_string(GetParam())), std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Depths, ResNetGolden, testing::Values(18, 50));

TEST(ResNet, BlocksBeginAsTheIdentityWithZeroInitResidual) {
  const auto model = resnet(50, {3, 16, 16}, 4, Head::linear, {.zero_init_residual = true});
  int zeros = 0;
  for (const auto& [name, parameter] : model->named_parameters()) {
    if (!name.ends_with("bn3.weight")) continue;
    const auto values = parameter.data().to_vector<float>();
    EXPECT_EQ(values, std::vector<float>(values.size())) << name;
    ++zeros;
  }
  EXPECT_EQ(zeros, 16);
}

TEST(ResNet, BottlenecksInChannelBlocksEqualTheirLayers) {
  manual_seed(4);
  const auto model =
      resnet(50, {3, 32, 32}, 10, Head::log_probabilities, {.stem = ResNetOptions::Stem::imagenet});
  const Variable x(uniform({3, 3, 64, 64}, 1.0));
  expect_its_layers_results(*model, x, 2e-3);
}

TEST(ResNet, OtherDepthsAreRefused) {
  EXPECT_THROW(static_cast<void>(resnet(20, {3, 32, 32}, 10)), InputError);
}

}  // namespace
}  // namespace lockstep::nn
