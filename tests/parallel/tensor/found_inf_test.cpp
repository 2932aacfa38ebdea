// Ranks that share out a model's tensors make or skip a step together.
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/message_of.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/optim/grad_scaler.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/tensor/found_inf.hpp>

#include "../asked_for_device.hpp"
#include "../ranks.hpp"

namespace lockstep {
namespace {

class FoundInf : public testing::TestWithParam<int> {};

TEST_P(FoundInf, OfOneRanksGradientsSkipsTheStepOfAll) {
  const int size = GetParam();
  test::on_ranks(size, [&](const auto& group) {
    const Device device = test::asked_for_device();
    const Variable part(Tensor::full({3}, 1.0, DType::f32, device), true);
    optim::SGD sgd({{"part", part}}, {.lr = 0.5});
    optim::GradScaler scaler({.init_scale = 8.0, .growth_interval = 2}, device);
    const auto value = [&] { return part.data().to_vector<float>()[0]; };
    // The gradient is 2; in step `broken` it is infinite, on one rank alone.
    const auto step = [&](int broken) {
      sgd.zero_grad();
      scaler.scaled(sum(part * 2.0)).backward();
      if (group->rank() == broken) part.grad().fill(std::numeric_limits<double>::infinity());
      scaler.unscale(sgd);
      agree_on_found_inf(scaler, sgd, group);
      const double found = scaler.step(sgd).item();
      scaler.update();
      return found;
    };
    EXPECT_EQ(step(-1), 0.0);
    EXPECT_EQ(value(), 0.0F);
    for (int broken = 0; broken < size; ++broken) {
      EXPECT_EQ(step(broken), 1.0) << "rank " << group->rank();
      EXPECT_EQ(value(), 0.0F) << "rank " << group->rank();
      EXPECT_EQ(scaler.scale(), 8.0 / static_cast<double>(2 << broken));
    }
    EXPECT_EQ(step(-1), 0.0);
    EXPECT_EQ(value(), -1.0F);
    EXPECT_TRUE(test::same_on_all_ranks(*group, std::to_string(scaler.scale())));
  });
}

TEST_P(FoundInf, OfGradientsThatAreStillScaledIsRefusedOnAllRanks) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const Variable part(Tensor::full({3}, 1.0, DType::f32, test::asked_for_device()), true);
    optim::SGD sgd({{"part", part}}, {.lr = 0.5});
    optim::GradScaler scaler({}, test::asked_for_device());
    scaler.scaled(sum(part)).backward();
    EXPECT_NE(test::message_of<Error>([&] {
                agree_on_found_inf(scaler, sgd, group);
              }).find("call unscale() first"),
              std::string::npos);
    EXPECT_NE(test::message_of<InputError>([&] {
                agree_on_found_inf(scaler, sgd, nullptr);
              }).find("needs a group"),
              std::string::npos);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, FoundInf, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
