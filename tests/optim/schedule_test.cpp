#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/plateau.hpp>
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

void expect_rates(const ScheduleOptions& options, const std::vector<double>& expected) {
  for (std::size_t k = 0; k < expected.size(); ++k) {
    EXPECT_NEAR(optim::scheduled_lr(options, 0.4, static_cast<std::int64_t>(k)), expected[k], 1e-14)
        << k;
  }
}

// What PyTorch 2.15's schedulers give for lr = 0.4.
TEST(Schedule, PolynomialAndRestartedCosinesArePyTorchs) {
  expect_rates({.kind = Kind::polynomial, .power = 2.0, .total = 5},
               {0.4, 0.256, 0.144, 0.064, 0.016, 0.0, 0.0, 0.0});
  expect_rates({.kind = Kind::cosine_restarts, .eta_min = 0.1, .t_0 = 3},
               {0.4, 0.325, 0.175, 0.4, 0.325, 0.175, 0.4, 0.325});
  expect_rates({.kind = Kind::cosine_restarts, .t_0 = 2, .t_mult = 3},
               {0.4, 0.2, 0.4, 0.3732050807568878, 0.3, 0.2, 0.1, 0.0267949192431123, 0.4,
                0.3969615506024416, 0.3879385241571817, 0.3732050807568878});
  ScheduleOptions behind_warm_up{.kind = Kind::polynomial, .unit = Unit::step, .warmup = 2};
  behind_warm_up.start_factor = 0.5;
  EXPECT_EQ(rates(behind_warm_up, 1, 6), (std::vector<double>{.5, .75, 1, .75, .5, .25}));
  behind_warm_up.warmup = 6;
  EXPECT_THROW(static_cast<void>(optim::fit_to_run(behind_warm_up, 1, 6)), InputError);
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

TEST(Schedule, ThatNeverFallsSaysWhy) {
  const auto why = [](const ScheduleOptions& options) {
    return optim::why_rate_never_falls(options, 10, 5);
  };
  EXPECT_EQ(
      why({.kind = Kind::step, .step_size = 30}),
      "the schedule never changes the rate: schedule.step_size = 30 epochs, but the run has 10");
  EXPECT_EQ(
      why({.kind = Kind::multistep, .unit = Unit::step, .milestones = {48, 99}, .warmup = 2}),
      "the schedule never changes the rate: the first of schedule.milestones = 48 steps behind "
      "a warm-up of 2, but the run has 50");
  for (const ScheduleOptions& falls :
       {ScheduleOptions{.kind = Kind::step, .step_size = 9},
        ScheduleOptions{.kind = Kind::multistep, .unit = Unit::step, .milestones = {49}},
        ScheduleOptions{.kind = Kind::cosine}, ScheduleOptions{}})
    EXPECT_EQ(why(falls), "");
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
  expect_refused({.kind = Kind::step, .warmup = 3},
                 "warmup = 3 epochs is longer than the run of 2");
  expect_refused({.unit = Unit::step, .warmup = 11},
                 "warmup = 11 steps is longer than the run of 10");
  EXPECT_NO_THROW(static_cast<void>(optim::fit_to_run({.unit = Unit::step, .warmup = 10}, 2, 5)));
  expect_refused({.kind = Kind::one_cycle, .warmup = 1}, "warm-up of its own");
  expect_refused({.kind = Kind::one_cycle}, "unit = \"step\"");  // 0.3 * 2 epochs
  expect_refused({.kind = Kind::one_cycle, .unit = Unit::step, .pct_start = 1.0}, "pct_start");
  expect_refused({.kind = Kind::multistep}, "needs milestones");
  expect_refused({.kind = Kind::multistep, .milestones = {3, 2}}, "[3, 2] must ascend");
  expect_refused({.kind = Kind::multistep, .milestones = {2, 2}}, "must ascend");
  expect_refused({.kind = Kind::step, .step_size = 0}, "step_size = 0 must be at least 1");
  expect_refused({.kind = Kind::cosine, .t_max = 0}, "t_max = 0");
  expect_refused({.kind = Kind::cosine_restarts, .t_0 = 0}, "t_0 = 0");
  expect_refused({.kind = Kind::cosine_restarts, .t_mult = 0}, "t_mult = 0");
  expect_refused({.kind = Kind::cyclic, .max_lr = 1, .step_size_up = 0}, "step_size_up = 0");
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

/// CyclicLR(base_lr=0.1, max_lr=0.5, step_size_up=3, step_size_down=4) of PyTorch, steps 0 to 15.
TEST(Schedule, CyclicRatesAndMomentaAreCyclicLRs) {
  using Mode = ScheduleOptions::CycleMode;
  struct Cycles {
    Mode mode;
    double gamma;
    std::vector<double> rates, momenta;
  };
  const std::vector<Cycles> tested{
      {Mode::triangular,
       1.0,
       {0.1, 0.233333333333, 0.366666666667, 0.5, 0.4, 0.3, 0.2, 0.1, 0.233333333333,
        0.366666666667, 0.5, 0.4, 0.3, 0.2, 0.1, 0.233333333333},
       {0.9, 0.866666666667, 0.833333333333, 0.8, 0.825, 0.85, 0.875, 0.9, 0.866666666667,
        0.833333333333, 0.8, 0.825, 0.85, 0.875, 0.9, 0.866666666667}},
      {Mode::triangular2,
       1.0,
       {0.1, 0.233333333333, 0.366666666667, 0.5, 0.4, 0.3, 0.2, 0.1, 0.166666666667,
        0.233333333333, 0.3, 0.25, 0.2, 0.15, 0.1, 0.133333333333},
       {0.9, 0.866666666667, 0.833333333333, 0.8, 0.825, 0.85, 0.875, 0.9, 0.883333333333,
        0.866666666667, 0.85, 0.8625, 0.875, 0.8875, 0.9, 0.891666666667}},
      {Mode::exp_range,
       0.9,
       {0.1, 0.22, 0.316, 0.3916, 0.29683, 0.218098, 0.1531441, 0.1, 0.157395628, 0.2033121304,
        0.23947137604, 0.194143178827, 0.156485907296, 0.125418658283, 0.1, 0.127452150946},
       {0.9, 0.87, 0.846, 0.8271, 0.8507925, 0.8704755, 0.886713975, 0.9, 0.885651093, 0.8741719674,
        0.86513215599, 0.876464205293, 0.885878523176, 0.893645335429, 0.9, 0.893136962264}}};
  for (const auto& [mode, gamma, rates, momenta] : tested) {
    const auto options = optim::fit_to_run({.kind = Kind::cyclic,
                                            .unit = Unit::step,
                                            .gamma = gamma,
                                            .base_momentum = 0.8,
                                            .max_momentum = 0.9,
                                            .max_lr = 0.5,
                                            .step_size_up = 3,
                                            .step_size_down = 4,
                                            .mode = mode},
                                           1, 16);
    for (std::size_t k = 0; k < rates.size(); ++k) {
      const auto at = static_cast<std::int64_t>(k);
      EXPECT_NEAR(optim::scheduled_lr(options, 0.1, at), rates[k], 1e-12) << k;
      EXPECT_NEAR(optim::scheduled_momentum(options, at).value(), momenta[k], 1e-12) << k;
    }
  }
}

TEST(Schedule, CyclesFallAsTheyRoseAndNeedAHighestRate) {
  const ScheduleOptions options{
      .kind = Kind::cyclic, .unit = Unit::step, .max_lr = 3.0, .step_size_up = 2};
  EXPECT_EQ(rates(options, 1, 6), (std::vector<double>{1, 2, 3, 2, 1, 2}));
  EXPECT_THROW(static_cast<void>(optim::fit_to_run({.kind = Kind::cyclic}, 1, 1)), InputError);
}

std::vector<double> rates_after(optim::ReduceLROnPlateau plateau,
                                const std::vector<double>& figures) {
  std::vector<double> result;
  for (const double figure : figures) {
    plateau.step(figure);
    result.push_back(plateau.lr());
  }
  return result;
}

// The rates that PyTorch's ReduceLROnPlateau gives for these figures.
TEST(Plateau, RateFallsAsReduceLROnPlateaus) {
  const std::vector<double> figures{5, 4, 4, 4, 4, 3.9999, 3, 3, 3, 3, 3, 3, 3, 3};
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(rates_after({{.factor = 0.5, .patience = 1}, 1.0}, figures),
            (std::vector<double>{1, 1, 1, .5, .5, .25, .25, .25, .125, .125, .0625, .0625, .03125,
                                 .03125}));
  EXPECT_EQ(rates_after({{.factor = 0.5, .patience = 1, .cooldown = 2}, 1.0}, figures),
            (std::vector<double>{1, 1, 1, .5, .5, .5, .5, .5, .25, .25, .25, .25, .125, .125}));
  EXPECT_EQ(rates_after({{.factor = 0.5, .patience = 1, .threshold = 1.5, .relative = false}, 1.0},
                        figures),
            (std::vector<double>{1, 1, .5, .5, .25, .25, .25, .25, .125, .125, .0625, .0625, .03125,
                                 .03125}));
  EXPECT_EQ(rates_after(
                {{.greater_is_better = true, .factor = 0.5, .patience = 1, .threshold = 0.1}, 1.0},
                {1, 2, 2.1, 2.1, nan, 2.2, 2.2, 2.2, 2.2}),
            (std::vector<double>{1, 1, 1, .5, .5, .25, .25, .125, .125}));
  EXPECT_EQ(rates_after({{.factor = 0.5, .patience = 0, .min_lr = 0.1}, 1.0}, figures),
            (std::vector<double>{1, 1, .5, .25, .125, .1, .1, .1, .1, .1, .1, .1, .1, .1}));
}

// As log-likelihoods are: a share of |best| is meant, where PyTorch takes what is a little worse
// for better, and never lowers the rate.
TEST(Plateau, RateFallsOnNegativeFiguresToo) {
  const std::vector<double> worse{-1, -1, -0.99995, -1.00005, -1.001, -1.001};
  EXPECT_EQ(rates_after({{.factor = 0.5, .patience = 0}, 1.0}, worse),
            (std::vector<double>{1, .5, .25, .125, .125, .0625}));
  EXPECT_EQ(rates_after({{.greater_is_better = true, .factor = 0.5, .patience = 0}, 1.0},
                        {-1, -1, -1.00005, -0.99995, -0.999, -0.999}),
            (std::vector<double>{1, .5, .25, .125, .125, .0625}));
}

// PyTorch's limit, best (1 - threshold), lies above a negative best: it would never fall.
TEST(Plateau, RateFallsForNegativeFiguresAsForPositiveOnes) {
  EXPECT_EQ(
      rates_after({{.factor = 0.5, .patience = 1}, 1.0}, {-5, -5, -5, -5.0001, -5.1, -5.1, -5.1}),
      (std::vector<double>{1, 1, .5, .5, .5, .5, .25}));
  EXPECT_EQ(rates_after({{.greater_is_better = true, .factor = 0.5, .patience = 1}, 1.0},
                        {-5, -5, -5, -4.9999, -4.9, -4.9, -4.9}),
            (std::vector<double>{1, 1, .5, .5, .5, .5, .25}));
  EXPECT_EQ(rates_after({{.factor = 0.5, .patience = 0}, 1.0}, {0, 0, -1e-9}),
            (std::vector<double>{1, .5, .5}));
}

TEST(Plateau, FiniteFiguresAreBetterThanAnInfiniteOne) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const bool relative : {true, false}) {
    optim::PlateauOptions options{.factor = 0.5, .patience = 1, .relative = relative};
    EXPECT_EQ(rates_after({options, 1.0}, {inf, 5, 4, 3, 2, 1}), std::vector<double>(6, 1.0));
    options.greater_is_better = true;
    EXPECT_EQ(rates_after({options, 1.0}, {-inf, 1, 2, 3, 4, 5}), std::vector<double>(6, 1.0));
  }
}

TEST(Plateau, GoesOnWhereItWasRestored) {
  const std::vector<double> figures{5, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3};
  const optim::PlateauOptions options{.factor = 0.5, .patience = 1, .cooldown = 1};
  const auto whole = rates_after({options, 1.0}, figures);
  for (std::size_t stop = 0; stop < figures.size(); ++stop) {
    optim::ReduceLROnPlateau before(options, 1.0), after(options, 1.0);
    for (std::size_t k = 0; k < stop; ++k) before.step(figures[k]);
    after.restore(before.state());
    const std::vector<double> rest(figures.begin() + static_cast<std::ptrdiff_t>(stop),
                                   figures.end());
    EXPECT_EQ(rates_after(after, rest),
              std::vector<double>(whole.begin() + static_cast<std::ptrdiff_t>(stop), whole.end()));
  }
}

TEST(Plateau, RefusesAFactorThatIsNone) {
  for (const double factor : {0.0, 1.0, -0.5, 2.0}) {
    EXPECT_THROW(optim::ReduceLROnPlateau({.factor = factor}, 1.0), InputError) << factor;
  }
}

}  // namespace
}  // namespace lockstep
