#include <gtest/gtest.h>

#include <lockstep/nn/models/resnet.hpp>

namespace lockstep::nn {
namespace {

struct Torchvision {
  int depth;
  std::int64_t parameters;
};

class ResNetFamily : public testing::TestWithParam<Torchvision> {};

TEST_P(ResNetFamily, HasTorchvisionsParametersWithTheStemOfImageNet) {
  const auto [depth, parameters] = GetParam();
  const auto model =
      resnet(depth, {3, 64, 64}, 1000, Head::linear, {.stem = ResNetOptions::Stem::imagenet});
  EXPECT_EQ(model->parameter_count(), parameters);
  EXPECT_EQ(model->state_dict().at("conv1.weight").shape(), (Shape{64, 3, 7, 7}));
  const bool bottleneck = depth >= 50;
  EXPECT_EQ(model->state_dict().at("layer2.0.conv2.weight").shape(), (Shape{128, 128, 3, 3}));
  EXPECT_EQ(model->state_dict().find("layer1.0.conv3.weight") != nullptr, bottleneck);
  EXPECT_EQ(model->state_dict().find("layer1.0.downsample.0.weight") != nullptr, bottleneck);
  EXPECT_EQ(model->state_dict().at("layer4.0.downsample.0.weight").shape(),
            bottleneck ? (Shape{2048, 1024, 1, 1}) : (Shape{512, 256, 1, 1}));
}

INSTANTIATE_TEST_SUITE_P(Depths, ResNetFamily,
                         testing::Values(Torchvision{18, 11'689'512}, Torchvision{34, 21'797'672},
                                         Torchvision{50, 25'557'032}, Torchvision{101, 44'549'160},
                                         Torchvision{152, 60'192'808}),
                         [](const auto& test) { return std::to_string(test.param.depth); });

}  // namespace
}  // namespace lockstep::nn
