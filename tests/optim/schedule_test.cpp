#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/schedule.hpp>
#include <lockstep/optim/sgd.hpp>

namespace lockstep {
namespace {

using optim::ScheduleOptions;
using Kind = ScheduleOptions::Kind;
using Unit = ScheduleOptions::Unit;

std::vector<nn::NamedParameter> one_parameter() {
  return {{"w", Variable(Tensor::zeros({1}), true)}};
}

/// The rates of steps 0, 1, ... in a run of so many epochs of so many steps.
std::vector<double> rates(const ScheduleOptions& options, std::int64_t epochs, std::int64_t steps) {
  const auto fitted = optim::fit_to_run(options, epochs, steps);
  optim::SGD sgd(one_parameter(), {.lr = 1.0, .momentum = 0.5});
  std::vector<double> result;
  for (std::int64_t step = 0; step < epochs * steps; ++step) {
    optim::apply_schedule(fitted, 1.0, step / steps, step, sgd);
    result.push_back(sgd.lr());
  }
  return result;
}

TEST(Schedule, ConstantNeverChanges) {
  for (const std::int64_t k : {0, 1, 1000000}) EXPECT_EQ(optim::scheduled_lr({}, 0.25, k), 0.25);
}

TEST(Schedule, UnitSaysWhetherEpochsOrStepsCount) {
  ScheduleOptions options{.kind = Kind::step, .step_size = 2, .gamma = 0.5};
  EXPECT_EQ(rates(options, 4, 2), (std::vector<double>{1, 1, 1, 1, .5, .5, .5, .5}));
  options.unit = Unit::step;
  EXPECT_EQ(rates(options, 4, 2), (std::vector<double>{1, 1, .5, .5, .25, .25, .125, .125}));
}

TEST(Schedule, WarmUpStandsBeforeEveryKindThatHasNoneOfItsOwn) {
  const ScheduleOptions warm{.unit = Unit::step, .gamma = 0.5, .warmup = 2, .start_factor = 0.25};
  auto constant = warm, multistep = warm, exponential = warm;
  multistep.kind = Kind::multistep;
  multistep.milestones = {1, 2};
  exponential.kind = Kind::exponential;
  EXPECT_EQ(rates(constant, 1, 5), (std::vector<double>{.25, .625, 1, 1, 1}));
  EXPECT_EQ(rates(multistep, 1, 5), (std::vector<double>{.25, .625, 1, .5, .25}));
  EXPECT_EQ(rates(exponential, 1, 5), (std::vector<double>{.25, .625, 1, .5, .25}));
}

TEST(Schedule, ATotalOfZeroIsTheWholeRun) {
  ScheduleOptions options{.kind = Kind::warmup_cosine, .unit = Unit::step, .warmup = 3};
  const auto whole = rates(options, 2, 5);
  options.total = 10;
  EXPECT_EQ(whole, rates(options, 2, 5));
  EXPECT_EQ(whole[2], 1.0);
  EXPECT_EQ(optim::fit_to_run({.kind = Kind::one_cycle}, 7, 5).total, 7);
  EXPECT_EQ(optim::fit_to_run({.kind = Kind::one_cycle, .unit = Unit::step}, 7, 5).total, 35);
  EXPECT_EQ(optim::fit_to_run({.kind = Kind::cosine}, 7, 5).total, 0);
}

TEST(Schedule, BeyondItsTotalTheRateStaysAtItsLastValue) {
  const auto cosine =
      optim::fit_to_run({.kind = Kind::warmup_cosine, .total = 10, .min_factor = 0.125}, 1, 1);
  for (const std::int64_t k : {10, 11, 1000}) EXPECT_EQ(optim::scheduled_lr(cosine, 8.0, k), 1.0);
  const auto cycle = optim::fit_to_run({.kind = Kind::one_cycle, .total = 10}, 1, 1);
  for (const std::int64_t k : {10, 11, 1000}) {
    EXPECT_EQ(optim::scheduled_lr(cycle, 1.0, k), optim::scheduled_lr(cycle, 1.0, 9));
    EXPECT_EQ(optim::scheduled_momentum(cycle, k), 0.95);
  }
}

void expect_refused(const ScheduleOptions& options, const std::string& words) {
  try {
    static_cast<void>(optim::fit_to_run(options, 2, 5));
    ADD_FAILURE() << "not refused: " << words;
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(Schedule, OptionsThatDoNotFitTogetherAreRefused) {
  expect_refused({.kind = Kind::warmup_cosine, .unit = Unit::step, .warmup = 10},
                 "warmup = 10 must be shorter than the total of 10 steps");
  expect_refused({.kind = Kind::warmup_cosine, .warmup = 2},
                 "warmup = 2 must be shorter than the total of 2 epochs");
  expect_refused({.kind = Kind::one_cycle, .warmup = 1}, "warm-up of its own");
  expect_refused({.kind = Kind::one_cycle}, "unit = \"step\"");  // 0.3 * 2 epochs
  expect_refused({.kind = Kind::one_cycle, .unit = Unit::step, .pct_start = 1.0}, "pct_start");
  expect_refused({.kind = Kind::multistep}, "needs milestones");
  expect_refused({.kind = Kind::multistep, .milestones = {3, 2}}, "[3, 2] must ascend");
  expect_refused({.kind = Kind::multistep, .milestones = {2, 2}}, "must ascend");
}

TEST(Schedule, OneCycleMovesSgdsMomentumAndAdamsFirstBeta) {
  const auto cycle = optim::fit_to_run({.kind = Kind::one_cycle, .total = 11}, 1, 1);
  optim::SGD sgd(one_parameter(), {.momentum = 0.9});
  optim::Adam adam(one_parameter());
  for (const auto& [k, momentum] : {std::pair{0, 0.95}, {10, 0.95}}) {
    optim::apply_schedule(cycle, 1.0, k, 0, sgd);
    optim::apply_schedule(cycle, 1.0, k, 0, adam);
    EXPECT_EQ(sgd.momentum(), momentum);
    EXPECT_EQ(adam.momentum(), momentum);
  }
  optim::apply_schedule(cycle, 1.0, 2, 0, adam);
  EXPECT_LT(adam.momentum(), 0.88);
}

TEST(Schedule, OneCycleWithoutAMomentumToMoveIsRefusedUnlessItMovesNone) {
  optim::SGD plain(one_parameter(), {.momentum = 0.0});
  auto cycle = optim::fit_to_run({.kind = Kind::one_cycle, .total = 11}, 1, 1);
  EXPECT_THROW(optim::apply_schedule(cycle, 1.0, 0, 0, plain), InputError);
  cycle.cycle_momentum = false;
  optim::apply_schedule(cycle, 1.0, 0, 0, plain);
  EXPECT_NEAR(plain.lr(), 0.04, 1e-15);
}

}  // namespace
}  // namespace lockstep
