#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/autograd/functional/norm.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <support/message_of.hpp>

namespace lockstep::nn {
namespace {

std::vector<std::string> state_names(const StateDict& state) {
  std::vector<std::string> all;
  for (const auto& [name, tensor, placement] : state) {
    all.push_back(std::string(name_of(tensor.dtype())) + " " + name + to_string(tensor.shape()));
  }
  return all;
}

TEST(BatchNorm, StateIsPyTorchs) {
  EXPECT_EQ(state_names(BatchNorm2d(3).state_dict()),
            (std::vector<std::string>{"f32 weight[3]", "f32 bias[3]", "f32 running_mean[3]",
                                      "f32 running_var[3]", "i64 num_batches_tracked[]"}));
}

TEST(BatchNorm, StateWithoutAffineOrRunningStatisticsIsPyTorchs) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(state_names(BatchNorm2d(3, {.affine = false}).state_dict()),
            (Names{"f32 running_mean[3]", "f32 running_var[3]", "i64 num_batches_tracked[]"}));
  EXPECT_EQ(state_names(BatchNorm2d(3, {.track_running_stats = false}).state_dict()),
            (Names{"f32 weight[3]", "f32 bias[3]"}));
  EXPECT_EQ(
      state_names(BatchNorm1d(3, {.affine = false, .track_running_stats = false}).state_dict()),
      Names{});
}

TEST(BatchNorm, WithoutAffineIsThatOfOnesAndZeros) {
  BatchNorm2d plain(2, {.affine = false}), affine(2);
  const Variable x(normal({3, 2, 4, 4}, 2.0));
  EXPECT_EQ(plain(x).data().to_vector<float>(), affine(x).data().to_vector<float>());
  plain.eval(), affine.eval();
  EXPECT_EQ(plain(x).data().to_vector<float>(), affine(x).data().to_vector<float>());
}

TEST(BatchNorm, WithoutRunningStatisticsEvaluatesByTheBatchsOwn) {
  BatchNorm2d layer(2, {.track_running_stats = false}), tracking(2);
  const Variable x(normal({3, 2, 4, 4}, 2.0));
  const auto y = tracking(x).data().to_vector<float>();
  EXPECT_EQ(layer(x).data().to_vector<float>(), y);
  layer.eval();
  EXPECT_EQ(layer(x).data().to_vector<float>(), y);
  EXPECT_NO_THROW(layer.reset_running_stats());
  EXPECT_THROW(static_cast<void>(layer(Variable(Tensor::zeros({1, 2, 1, 1})))), ShapeError);
}

TEST(BatchNorm, FeaturesAreCheckedWithoutAnyTensorOfThem) {
  BatchNorm1d layer(4, {.affine = false, .track_running_stats = false});
  EXPECT_THROW(static_cast<void>(layer(Variable(Tensor::zeros({5, 3})))), ShapeError);
}

TEST(BatchNorm, NamedBuffersAreTheModelsOwn) {
  const BatchNorm1d layer(2);
  const auto buffers = layer.named_buffers();
  ASSERT_EQ(buffers.size(), 3U);
  EXPECT_EQ(buffers[1].first, "running_var");
  buffers[1].second.fill(5.0);
  EXPECT_EQ(layer.state_dict().at("running_var").to_vector<float>(), (std::vector<float>{5, 5}));
}

TEST(BatchNorm, TrainingNormalisesAndTracksEvaluationOnlyReads) {
  BatchNorm2d layer(2, {.eps = 1e-5, .momentum = 0.25});
  // Channel 0 holds 1 and 3, channel 1 holds 10 and 30, as often as each other: eight values each.
  const Variable x(Tensor::from(std::vector<float>{1, 1, 3, 3, 10, 10, 30, 30,  //
                                                   3, 1, 3, 1, 30, 10, 30, 10},
                                {2, 2, 2, 2}));
  const auto y = layer(x).data().to_vector<float>();
  EXPECT_NEAR(y[0], -1.0 / std::sqrt(1 + 1e-5), 1e-6);
  EXPECT_NEAR(y[6], 10.0 / std::sqrt(100 + 1e-5), 1e-6);
  const StateDict state = layer.state_dict();
  EXPECT_EQ(state.at("running_mean").to_vector<float>(), (std::vector<float>{0.5F, 5.0F}));
  const auto variance = state.at("running_var").to_vector<float>();
  EXPECT_NEAR(variance[0], 0.75 + 0.25 * 8.0 / 7, 1e-6) << "the unbiased variance";
  EXPECT_EQ(state.at("num_batches_tracked").item(), 1.0);

  layer.eval();
  const auto evaluated = layer(x).data().to_vector<float>();
  EXPECT_NEAR(evaluated[0], 0.5 / std::sqrt(variance[0] + 1e-5), 1e-6);
  EXPECT_EQ(layer.state_dict().at("running_var").to_vector<float>(), variance);
  EXPECT_EQ(state.at("num_batches_tracked").item(), 1.0);
}

TEST(BatchNorm, StatisticsFarFromZeroAreAccurate) {
  // Mean 4096 and steps of 1/16, all exact in f32: E[x^2] - mean^2 would leave nothing.
  std::vector<float> values(6 * 256);
  double mean = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 4096.0F + static_cast<float>(i * 37 % 64) / 16.0F;
    mean += values[i] / static_cast<double>(values.size());
  }
  for (const float v : values) squares += (v - mean) * (v - mean);
  BatchNorm2d layer(1, {.momentum = 1.0});
  static_cast<void>(layer(Variable(Tensor::from(values, {6, 1, 16, 16}))));
  const double unbiased = squares / static_cast<double>(values.size() - 1);
  EXPECT_NEAR(layer.state_dict().at("running_var").item(), unbiased, 1e-6 * unbiased);
}

TEST(BatchNorm, NanStaysInItsChannel) {
  BatchNorm1d layer(2);
  const Variable x(Tensor::from(std::vector<float>{1, NAN, 2, 5, 3, 6}, {3, 2}));
  const auto y = layer(x).data().to_vector<float>();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % 2 == 1) << i;
}

TEST(BatchNorm, ABatchWithoutSamplesLeavesStatisticsAlone) {
  BatchNorm2d layer(3);
  EXPECT_EQ(layer(Variable(Tensor::empty({0, 3, 4, 4}))).shape(), (Shape{0, 3, 4, 4}));
  EXPECT_EQ(layer.state_dict().at("running_var").to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(layer.state_dict().at("num_batches_tracked").item(), 0.0) << "the weight of a mean";
}

TEST(BatchNorm, OneValueAChannelIsRefusedInTrainingAlone) {
  BatchNorm1d layer(4);
  const Variable x(Tensor::full({1, 4}, 2.0));
  const auto message = test::message_of<Error>([&] { static_cast<void>(layer(x)); });
  EXPECT_NE(message.find("[1, 4]"), std::string::npos) << message;
  EXPECT_NE(message.find("more than one value"), std::string::npos) << message;
  layer.eval();
  EXPECT_NO_THROW(static_cast<void>(layer(x)));
}

TEST(BatchNorm, MisfitsAreNamedWithBothShapes) {
  BatchNorm2d layer(4);
  const auto message = test::message_of<Error>([&] {
    static_cast<void>(layer(Variable(Tensor::zeros({2, 3, 5, 5}))));
  });
  EXPECT_NE(message.find("[2, 3, 5, 5]"), std::string::npos) << message;
  EXPECT_NE(message.find("4 features"), std::string::npos) << message;
  EXPECT_NE(test::message_of<Error>([&] {
              static_cast<void>(layer(Variable(Tensor::zeros({2, 4}))));
            }).find("BatchNorm2d takes an input of 4 dimensions, not f32[2, 4]"),
            std::string::npos);
  EXPECT_THROW(BatchNorm2d(0), InputError);
  EXPECT_THROW(BatchNorm2d(3, {.eps = 0.0}), InputError);
  EXPECT_THROW(BatchNorm2d(3, {.momentum = 1.5}), InputError);
}

TEST(AveragePools, LayersPassTheirOptions) {
  const Variable x(Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3}));
  EXPECT_EQ(AvgPool2d(2)(x).data().to_vector<float>(), (std::vector<float>{3}));
  AvgPool2d padded({.kernel = 3, .stride = 2, .padding = 1}, false);
  EXPECT_EQ(padded(x).data().to_vector<float>(), (std::vector<float>{3, 4, 6, 7}));
  AvgPool2d counting({.kernel = 2, .stride = 2, .padding = 1});
  EXPECT_EQ(counting(x).data().to_vector<float>(), (std::vector<float>{0.25, 1.25, 2.75, 7}));
  EXPECT_EQ(AdaptiveAvgPool2d(2)(x).data().to_vector<float>(), (std::vector<float>{3, 4, 6, 7}));
  EXPECT_NE(
      test::message_of<Error>([&] { static_cast<void>(AvgPool2d(4)(x)); }).find("[1, 1, 3, 3]"),
      std::string::npos);
}

TEST(Conv2d, KernelsMayBeRectangular) {
  const Conv2d layer(2, 3, {1, 5});
  EXPECT_EQ(layer.weight().shape(), (Shape{3, 2, 1, 5}));
  EXPECT_THROW(Conv2d(2, 3, {1, 0}), InputError);
}

}  // namespace
}  // namespace lockstep::nn
