#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/schedules.hpp>
#include <lockstep/optim/sgd.hpp>

namespace lockstep {
namespace {

using optim::ScheduledRun;
using optim::ScheduleOptions;
using Unit = optim::ScheduleUnit;

std::vector<nn::NamedParameter> one_parameter() {
  return {{"w", Variable(Tensor::zeros({1}), true)}};
}

/// The rates of steps 0, 1, ... in a run of so many epochs of so many steps.
std::vector<double> rates(const ScheduleOptions& options, std::int64_t epochs, std::int64_t steps) {
  const auto schedule = optim::make_schedule(options, epochs, steps);
  optim::SGD sgd(one_parameter(), {.lr = 1.0, .momentum = 0.5});
  std::vector<double> result;
  for (std::int64_t step = 0; step < epochs * steps; ++step) {
    optim::apply_schedule(*schedule, 1.0, step / steps, step, sgd);
    result.push_back(sgd.lr());
  }
  return result;
}

TEST(Schedule, ConstantNeverChanges) {
  const auto constant = optim::make_schedule({}, 1, 1);
  for (const std::int64_t k : {0, 1, 1000000}) EXPECT_EQ(constant->lr(0.25, k), 0.25);
}

TEST(Schedule, UnitSaysWhetherEpochsOrStepsCount) {
  ScheduleOptions options{.kind = optim::StepLR{.step_size = 2, .gamma = 0.5}};
  EXPECT_EQ(rates(options, 4, 2), (std::vector<double>{1, 1, 1, 1, .5, .5, .5, .5}));
  options.unit = Unit::step;
  EXPECT_EQ(rates(options, 4, 2), (std::vector<double>{1, 1, .5, .5, .25, .25, .125, .125}));
}

TEST(Schedule, WarmUpStandsBeforeEveryKindThatHasNoneOfItsOwn) {
  const optim::LinearWarmup warmup{.units = 2, .start_factor = 0.25};
  const auto warm = [](const optim::ScheduleKind& kind) {
    return rates({.kind = kind, .unit = Unit::step}, 1, 5);
  };
  EXPECT_EQ(warm(optim::ConstantRate{warmup}), (std::vector<double>{.25, .625, 1, 1, 1}));
  EXPECT_EQ(warm(optim::MultiStepLR{.milestones = {1, 2}, .gamma = 0.5, .warmup = warmup}),
            (std::vector<double>{.25, .625, 1, .5, .25}));
  EXPECT_EQ(warm(optim::ExponentialLR{.gamma = 0.5, .warmup = warmup}),
            (std::vector<double>{.25, .625, 1, .5, .25}));
}

void expect_rates(const optim::ScheduleKind& kind, const std::vector<double>& expected) {
  const auto schedule = optim::make_schedule({.kind = kind}, 100, 1);
  for (std::size_t k = 0; k < expected.size(); ++k)
    EXPECT_NEAR(schedule->lr(0.4, static_cast<std::int64_t>(k)), expected[k], 1e-14) << k;
}

// What PyTorch 2.15's schedulers give for lr = 0.4.
TEST(Schedule, PolynomialAndRestartedCosinesArePyTorchs) {
  expect_rates(optim::PolynomialLR{.power = 2.0, .total = 5},
               {0.4, 0.256, 0.144, 0.064, 0.016, 0.0, 0.0, 0.0});
  expect_rates(optim::CosineAnnealingWarmRestarts{.t_0 = 3, .eta_min = 0.1},
               {0.4, 0.325, 0.175, 0.4, 0.325, 0.175, 0.4, 0.325});
  expect_rates(optim::CosineAnnealingWarmRestarts{.t_0 = 2, .t_mult = 3},
               {0.4, 0.2, 0.4, 0.3732050807568878, 0.3, 0.2, 0.1, 0.0267949192431123, 0.4,
                0.3969615506024416, 0.3879385241571817, 0.3732050807568878});
  optim::PolynomialLR behind_warm_up{.warmup = {.units = 2, .start_factor = 0.5}};
  EXPECT_EQ(rates({.kind = behind_warm_up, .unit = Unit::step}, 1, 6),
            (std::vector<double>{.5, .75, 1, .75, .5, .25}));
}

TEST(Schedule, ATotalOfZeroIsTheWholeRun) {
  optim::WarmupCosine cosine{.warmup = 3};
  const auto whole = rates({.kind = cosine, .unit = Unit::step}, 2, 5);
  cosine.total = 10;
  EXPECT_EQ(whole, rates({.kind = cosine, .unit = Unit::step}, 2, 5));
  EXPECT_EQ(whole[2], 1.0);
  optim::OneCycleLR cycle;
  cycle.fit({.length = 7});
  EXPECT_EQ(cycle.total, 7);
}

TEST(Schedule, RateStaysAtItsLastValueBeyondTheTotal) {
  const auto cosine =
      optim::make_schedule({.kind = optim::WarmupCosine{.total = 10, .min_factor = 0.125}}, 1, 1);
  for (const std::int64_t k : {10, 11, 1000}) EXPECT_EQ(cosine->lr(8.0, k), 1.0);
  const auto cycle = optim::make_schedule({.kind = optim::OneCycleLR{.total = 10}}, 1, 1);
  for (const std::int64_t k : {10, 11, 1000}) {
    EXPECT_EQ(cycle->lr(1.0, k), cycle->lr(1.0, 9));
    EXPECT_EQ(cycle->momentum(k), 0.95);
  }
}

TEST(Schedule, ThatNeverFallsReportsTheReason) {
  const auto why = [](const optim::ScheduleKind& kind, Unit unit = Unit::epoch) {
    return optim::make_schedule({.kind = kind, .unit = unit}, 10, 5)->why_rate_never_falls();
  };
  EXPECT_EQ(
      why(optim::StepLR{.step_size = 30}),
      "the schedule never changes the rate: schedule.step_size = 30 epochs, but the run has 10");
  EXPECT_EQ(
      why(optim::MultiStepLR{.milestones = {48, 99}, .warmup = {.units = 2}}, Unit::step),
      "the schedule never changes the rate: the first of schedule.milestones = 48 steps behind "
      "a warm-up of 2, but the run has 50");
  EXPECT_EQ(why(optim::StepLR{.step_size = 9}), "");
  EXPECT_EQ(why(optim::MultiStepLR{.milestones = {49}}, Unit::step), "");
  EXPECT_EQ(why(optim::CosineAnnealingLR()), "");
  EXPECT_EQ(why({}), "");
}

TEST(Schedule, OptionsThatDoNotFitTogetherAreRefused) {
  const auto refused = [](const optim::ScheduleKind& kind, const std::string& words,
                          Unit unit = Unit::epoch) {
    try {
      static_cast<void>(optim::make_schedule({.kind = kind, .unit = unit}, 2, 5));
      ADD_FAILURE() << "not refused: " << words;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refused(optim::WarmupCosine{.warmup = 10},
          "warmup = 10 must be shorter than the total of 10 steps", Unit::step);
  refused(optim::WarmupCosine{.warmup = 2},
          "warmup = 2 must be shorter than the total of 2 epochs");
  refused(optim::StepLR{.warmup = {.units = 3}}, "warmup = 3 epochs is longer than the run of 2");
  refused(optim::ConstantRate{{.units = 11}}, "warmup = 11 steps is longer than the run of 10",
          Unit::step);
  EXPECT_NO_THROW(static_cast<void>(optim::make_schedule(
      {.kind = optim::ConstantRate{{.units = 10}}, .unit = Unit::step}, 2, 5)));
  refused(optim::PolynomialLR{.warmup = {.units = 2}}, "warmup = 2 leaves no part of the run");
  refused(optim::PolynomialLR{.total = 5, .warmup = {.units = 3}}, "longer than the run of 2");
  refused(optim::OneCycleLR(), "unit = \"step\"");  // 0.3 * 2 epochs
  refused(optim::OneCycleLR{.pct_start = 1.0},
          "one_cycle over 10 steps with pct_start = 1 leaves no units", Unit::step);
  refused(optim::MultiStepLR(), "needs milestones");
  refused(optim::MultiStepLR{.milestones = {3, 2}}, "[3, 2] must ascend");
  refused(optim::MultiStepLR{.milestones = {2, 2}}, "must ascend");
  refused(optim::StepLR{.step_size = 0}, "step_size = 0 must be at least 1");
  refused(optim::CosineAnnealingLR{.t_max = 0}, "t_max = 0");
  refused(optim::CosineAnnealingWarmRestarts{.t_0 = 0}, "t_0 = 0");
  refused(optim::CosineAnnealingWarmRestarts{.t_mult = 0}, "t_mult = 0");
  refused(optim::CyclicLR{.max_lr = 1, .step_size_up = 0}, "step_size_up = 0");
}

TEST(Schedule, OneCycleMovesSgdsMomentumAndAdamsFirstBeta) {
  const auto cycle = optim::make_schedule({.kind = optim::OneCycleLR{.total = 11}}, 1, 1);
  optim::SGD sgd(one_parameter(), {.momentum = 0.9});
  optim::Adam adam(one_parameter());
  for (const auto& [k, momentum] : {std::pair{0, 0.95}, {10, 0.95}}) {
    optim::apply_schedule(*cycle, 1.0, k, 0, sgd);
    optim::apply_schedule(*cycle, 1.0, k, 0, adam);
    EXPECT_EQ(sgd.momentum(), momentum);
    EXPECT_EQ(adam.momentum(), momentum);
  }
  optim::apply_schedule(*cycle, 1.0, 2, 0, adam);
  EXPECT_LT(adam.momentum(), 0.88);
}

TEST(Schedule, OneCycleWithoutAMomentumToMoveIsRefusedUnlessItMovesNone) {
  optim::SGD plain(one_parameter(), {.momentum = 0.0});
  optim::OneCycleLR cycle{.total = 11};
  EXPECT_THROW(
      optim::apply_schedule(*optim::make_schedule({.kind = cycle}, 1, 1), 1.0, 0, 0, plain),
      InputError);
  cycle.cycle_momentum = false;
  optim::apply_schedule(*optim::make_schedule({.kind = cycle}, 1, 1), 1.0, 0, 0, plain);
  EXPECT_NEAR(plain.lr(), 0.04, 1e-15);
}

/// Falls as 1 / sqrt(k + 1), in runs of at most 10 epochs.
struct InverseSqrt {
  double factor = 1.0;
  optim::LinearWarmup warmup;

  static void fit(const ScheduledRun& run) {
    if (run.length > 10) throw InputError("too long");
  }
  [[nodiscard]] double lr(double base_lr, std::int64_t k) const {
    return base_lr * factor / std::sqrt(static_cast<double>(k + 1));
  }
};
void declare(DeckTable& table, InverseSqrt& options) {
  table.key("factor", options.factor, {.doc = "of the rate", .min = 0.0});
  declare(table, options.warmup);
}

TEST(Schedule, DefinedByTheUserIsAKindOfDecksOnceRegistered) {
  static const bool once = [] {
    optim::register_schedule<InverseSqrt>("inverse_sqrt", "falls as 1 / sqrt(k)");
    return true;
  }();
  static_cast<void>(once);
  auto deck = Deck::parse("[schedule]\nkind = 'inverse_sqrt'\nfactor = 0.5\nwarmup = 1\n", "a");
  const auto options = deck.read<ScheduleOptions>("schedule");
  deck.check_all_read();
  EXPECT_EQ(rates(options, 6, 1)[0], 1.0 / 3.0);
  EXPECT_EQ(rates(options, 6, 1)[1], 0.5);
  EXPECT_EQ(rates(options, 6, 1)[4], 0.25);
  EXPECT_THROW(static_cast<void>(optim::make_schedule(options, 11, 1)), InputError);
  EXPECT_THROW(optim::register_schedule<InverseSqrt>("inverse_sqrt", "again"), Error);
}

/// CyclicLR(base_lr=0.1, max_lr=0.5, step_size_up=3, step_size_down=4) of PyTorch, steps 0 to 15.
TEST(Schedule, CyclicRatesAndMomentaAreCyclicLRs) {
  using Mode = optim::CyclicLR::Mode;
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
    const auto schedule = optim::make_schedule({.kind = optim::CyclicLR{.max_lr = 0.5,
                                                                        .step_size_up = 3,
                                                                        .step_size_down = 4,
                                                                        .mode = mode,
                                                                        .gamma = gamma},
                                                .unit = Unit::step},
                                               1, 16);
    for (std::size_t k = 0; k < rates.size(); ++k) {
      const auto at = static_cast<std::int64_t>(k);
      EXPECT_NEAR(schedule->lr(0.1, at), rates[k], 1e-12) << k;
      EXPECT_NEAR(schedule->momentum(at).value(), momenta[k], 1e-12) << k;
    }
  }
}

TEST(Schedule, CyclesFallAsTheyRoseAndNeedAHighestRate) {
  EXPECT_EQ(
      rates({.kind = optim::CyclicLR{.max_lr = 3.0, .step_size_up = 2}, .unit = Unit::step}, 1, 6),
      (std::vector<double>{1, 2, 3, 2, 1, 2}));
  EXPECT_THROW(static_cast<void>(optim::make_schedule({.kind = optim::CyclicLR()}, 1, 1)),
               InputError);
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

TEST(Plateau, ContinuesWhereItWasRestored) {
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

TEST(Plateau, RefusesAnInvalidFactor) {
  for (const double factor : {0.0, 1.0, -0.5, 2.0}) {
    EXPECT_THROW(optim::ReduceLROnPlateau({.factor = factor}, 1.0), InputError) << factor;
  }
}

}  // namespace
}  // namespace lockstep
