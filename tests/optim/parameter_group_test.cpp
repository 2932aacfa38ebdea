#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/parameter_group.hpp>
#include <lockstep/optim/schedule.hpp>
#include <lockstep/optim/sgd.hpp>

#include "parameters.hpp"

namespace lockstep {
namespace {

using optim::ParameterGroup;
using test::parameter;
using test::set_grad;
using test::values;

TEST(ParameterGroups, AParameterBelongsToTheFirstThatFits) {
  const std::vector<nn::NamedParameter> parameters{
      parameter("conv1.weight", {1}), parameter("conv1.bias", {1}), parameter("fc.weight", {1})};
  const std::vector<ParameterGroup> groups{{.pattern = "*.bias"}, {.pattern = "conv1.*"}};
  EXPECT_EQ(optim::group_of_each(parameters, groups), (std::vector<std::size_t>{1, 0, 2}));
}

TEST(ParameterGroups, EachHasItsFactorOfTheRateAndItsDecay) {
  const auto weight = parameter("fc.weight", {2.0F}), bias = parameter("fc.bias", {2.0F});
  optim::SGD sgd({weight, bias}, {.lr = 0.5, .weight_decay = 0.5},
                 {{.pattern = "*.bias", .lr_factor = 0.5, .weight_decay = 0.0}});
  set_grad(weight.variable, 1.0);
  set_grad(bias.variable, 1.0);
  sgd.step();
  EXPECT_EQ(values(weight)[0], 2.0F - 0.5F * (1.0F + 0.5F * 2.0F));
  EXPECT_EQ(values(bias)[0], 2.0F - 0.25F * 1.0F);
}

TEST(ParameterGroups, AScheduleMovesTheRateOfEach) {
  const auto slow = parameter("slow", {0.0F}), fast = parameter("fast", {0.0F});
  optim::SGD sgd({slow, fast}, {.lr = 1.0}, {{.pattern = "slow", .lr_factor = 0.25}});
  const optim::ScheduleOptions schedule{.kind = optim::ScheduleOptions::Kind::exponential,
                                        .gamma = 0.5};
  for (int epoch = 0; epoch < 3; ++epoch) {
    set_grad(slow.variable, 1.0);
    set_grad(fast.variable, 1.0);
    optim::apply_schedule(schedule, 1.0, epoch, 0, sgd);
    sgd.step();
  }
  EXPECT_EQ(values(fast)[0], -1.75F);
  EXPECT_EQ(values(slow)[0], -1.75F / 4);
}

TEST(ParameterGroups, APatternThatFitsNothingIsRefusedNamingTheNearest) {
  const std::vector<nn::NamedParameter> parameters{parameter("conv1.weight", {1}),
                                                   parameter("fc.weight", {1})};
  try {
    optim::SGD sgd(parameters, {}, {{.pattern = "conv.weight"}});
    ADD_FAILURE() << "not refused";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "the pattern 'conv.weight' fits no parameter of the model. Did you mean "
                 "conv1.weight?");
  }
}

TEST(ParameterGroups, NumbersOutOfRangeAreRefused) {
  const auto p = parameter("w", {1.0F});
  for (const double bad : {-1.0, std::nan("")}) {
    EXPECT_THROW(optim::SGD({p}, {}, {{.pattern = "w", .lr_factor = bad}}), InputError);
    EXPECT_THROW(optim::AdamW({p}, {}, {{.pattern = "w", .weight_decay = bad}}), InputError);
  }
}

}  // namespace
}  // namespace lockstep
