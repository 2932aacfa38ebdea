#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/layer_wise.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/schedule.hpp>
#include <lockstep/optim/sgd.hpp>

namespace lockstep {
namespace {

Deck deck(const std::string& toml) { return Deck::parse(toml, "test.toml"); }

using optim::OptimizerOptions;
using optim::ScheduleOptions;

TEST(OptimDeck, EveryKeyReachesItsOption) {
  auto source = deck(R"(
    [optimizer]
    kind = "adamw"
    lr = 0.5
    momentum = 0.25
    dampening = 0.125
    nesterov = true
    weight_decay = 0.0625
    betas = [0.75, 0.875]
    eps = 0.5
    amsgrad = true
    alpha = 0.375
    centered = true
    lr_decay = 0.75
    initial_accumulator_value = 1.5
    rho = 0.125
    momentum_decay = 0.875
    decoupled_weight_decay = true
    lambd = 2.5
    t0 = 3.0
    trust_coefficient = 0.25
    not_adapted = ["*.bias"]
    clip_norm = 2.0
    group_pattern = ["a", "b*"]
    group_lr_factor = [2.0, 3.0]
    group_weight_decay = [4.0, 5.0]
  )");
  const auto options = optim::read_optimizer_options(source);
  EXPECT_EQ(options.kind, OptimizerOptions::Kind::adamw);
  EXPECT_EQ(options.lr, 0.5);
  EXPECT_EQ(options.momentum, 0.25);
  EXPECT_EQ(options.dampening, 0.125);
  EXPECT_TRUE(options.nesterov);
  EXPECT_EQ(options.weight_decay, 0.0625);
  EXPECT_EQ(options.betas, (std::vector<double>{0.75, 0.875}));
  EXPECT_EQ(options.eps, 0.5);
  EXPECT_TRUE(options.amsgrad);
  EXPECT_EQ(options.alpha, 0.375);
  EXPECT_TRUE(options.centered);
  EXPECT_EQ(options.lr_decay, 0.75);
  EXPECT_EQ(options.initial_accumulator_value, 1.5);
  EXPECT_EQ(options.rho, 0.125);
  EXPECT_EQ(options.momentum_decay, 0.875);
  EXPECT_TRUE(options.decoupled_weight_decay);
  EXPECT_EQ(options.lambd, 2.5);
  EXPECT_EQ(options.t0, 3.0);
  EXPECT_EQ(options.trust_coefficient, 0.25);
  EXPECT_EQ(options.not_adapted, std::vector<std::string>{"*.bias"});
  EXPECT_EQ(options.clip_norm, 2.0);
  EXPECT_EQ(options.clip_value, 0.0);
  EXPECT_EQ(options.group_pattern, (std::vector<std::string>{"a", "b*"}));
  EXPECT_EQ(options.group_lr_factor, (std::vector<double>{2.0, 3.0}));
  EXPECT_EQ(options.group_weight_decay, (std::vector<double>{4.0, 5.0}));
  source.check_all_read();
}

TEST(ScheduleDeck, EveryKeyReachesItsOption) {
  auto source = deck(R"(
    [schedule]
    kind = "one_cycle"
    unit = "step"
    step_size = 7
    gamma = 0.5
    milestones = [3, 5]
    t_max = 9
    eta_min = 0.25
    warmup = 11
    start_factor = 0.125
    total = 13
    min_factor = 0.75
    pct_start = 0.375
    div_factor = 2.0
    final_div_factor = 3.0
    cycle_momentum = false
    base_momentum = 0.625
    max_momentum = 0.875
    max_lr = 4.0
    step_size_up = 15
    step_size_down = 17
    mode = "exp_range"
    metric = "accuracy"
    factor = 0.25
    patience = 19
    threshold = 0.5
    threshold_mode = "abs"
    cooldown = 21
    min_lr = 0.0625
  )");
  const auto schedule = source.read<ScheduleOptions>("schedule");
  EXPECT_EQ(schedule.kind, ScheduleOptions::Kind::one_cycle);
  EXPECT_EQ(schedule.unit, ScheduleOptions::Unit::step);
  EXPECT_EQ(schedule.step_size, 7);
  EXPECT_EQ(schedule.gamma, 0.5);
  EXPECT_EQ(schedule.milestones, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(schedule.t_max, 9);
  EXPECT_EQ(schedule.eta_min, 0.25);
  EXPECT_EQ(schedule.warmup, 11);
  EXPECT_EQ(schedule.start_factor, 0.125);
  EXPECT_EQ(schedule.total, 13);
  EXPECT_EQ(schedule.min_factor, 0.75);
  EXPECT_EQ(schedule.pct_start, 0.375);
  EXPECT_EQ(schedule.div_factor, 2.0);
  EXPECT_EQ(schedule.final_div_factor, 3.0);
  EXPECT_FALSE(schedule.cycle_momentum);
  EXPECT_EQ(schedule.base_momentum, 0.625);
  EXPECT_EQ(schedule.max_momentum, 0.875);
  EXPECT_EQ(schedule.max_lr, 4.0);
  EXPECT_EQ(schedule.step_size_up, 15);
  EXPECT_EQ(schedule.step_size_down, 17);
  EXPECT_EQ(schedule.mode, ScheduleOptions::CycleMode::exp_range);
  EXPECT_EQ(schedule.metric, "accuracy");
  EXPECT_EQ(schedule.plateau.factor, 0.25);
  EXPECT_EQ(schedule.plateau.patience, 19);
  EXPECT_EQ(schedule.plateau.threshold, 0.5);
  EXPECT_FALSE(schedule.plateau.relative);
  EXPECT_EQ(schedule.plateau.cooldown, 21);
  EXPECT_EQ(schedule.plateau.min_lr, 0.0625);
  source.check_all_read();
}

OptimizerOptions optimizer_of(const std::string& lines) {
  auto source = deck("[optimizer]\n" + lines + "\n");
  return optim::read_optimizer_options(source);
}

TEST(OptimDeck, DefaultsAreThoseOfTheKindsOwnOptions) {
  EXPECT_EQ(optimizer_of("").momentum, optim::SgdOptions().momentum);
  EXPECT_EQ(optimizer_of("kind = 'adam'").weight_decay, optim::AdamOptions().weight_decay);
  EXPECT_EQ(optimizer_of("kind = 'adam'").eps, optim::AdamOptions().eps);
  EXPECT_EQ(optimizer_of("kind = 'adamw'").weight_decay, optim::AdamWOptions().weight_decay);
  EXPECT_EQ(optimizer_of("kind = 'lars'").momentum, optim::LarsOptions().momentum);
  EXPECT_EQ(optimizer_of("kind = 'lars'").trust_coefficient,
            optim::LarsOptions().trust_coefficient);
  EXPECT_EQ(optimizer_of("kind = 'lamb'").eps, optim::LambOptions().eps);
  EXPECT_EQ(optimizer_of("kind = 'lamb'").weight_decay, optim::LambOptions().weight_decay);
}

TEST(OptimDeck, DefaultsOfFurtherKindsAreTorchOptims) {
  struct Defaults {
    const char* kind;
    double lr, eps;
    std::vector<double> betas{0.9, 0.999};
    double alpha = 0.99;
  };
  for (const auto& [kind, lr, eps, betas, alpha] :
       std::vector<Defaults>{{"rmsprop", 1e-2, 1e-8},
                             {"adagrad", 1e-2, 1e-10},
                             {"adadelta", 1.0, 1e-6},
                             {"adamax", 2e-3, 1e-8},
                             {"nadam", 2e-3, 1e-8},
                             {"radam", 1e-3, 1e-8},
                             {"asgd", 1e-2, 1e-8, {0.9, 0.999}, 0.75},
                             {"lion", 1e-4, 1e-8, {0.9, 0.99}}}) {
    const auto options = optimizer_of(std::string("kind = '") + kind + "'");
    EXPECT_EQ(options.lr, lr) << kind;
    EXPECT_EQ(options.eps, eps) << kind;
    EXPECT_EQ(options.betas, betas) << kind;
    EXPECT_EQ(options.alpha, alpha) << kind;
    EXPECT_EQ(options.weight_decay, 0.0) << kind;
  }
}

TEST(ScheduleDeck, DefaultsOfCyclesAreCyclicLRs) {
  auto source = deck("[schedule]\nkind = 'cyclic'\n");
  const auto schedule = source.read<ScheduleOptions>("schedule");
  EXPECT_EQ(schedule.gamma, 1.0);
  EXPECT_EQ(schedule.base_momentum, 0.8);
  EXPECT_EQ(schedule.max_momentum, 0.9);
}

TEST(OptimDeck, ListsThatDoNotFitTogetherAreRefusedByFileAndLine) {
  const auto message = [](const std::string& lines) -> std::string {
    try {
      optimizer_of(lines);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("group_pattern = ['a', 'b']\ngroup_lr_factor = [1.0]"),
            "test.toml:3: optimizer.group_lr_factor has 1 entries, but must have 2: one for each "
            "pattern in group_pattern.");
  EXPECT_EQ(message("\ngroup_weight_decay = [1.0]"),
            "test.toml:3: optimizer.group_weight_decay has 1 entries, but must have 0: one for "
            "each pattern in group_pattern.");
  EXPECT_EQ(message("betas = [0.9]"),
            "test.toml:2: optimizer.betas has 1 entries, but must have 2: one for each running "
            "mean.");
  EXPECT_EQ(message("clip_norm = 1.0\nclip_value = 0.5"),
            "test.toml:2: optimizer.clip_norm and optimizer.clip_value (set at test.toml:3) clip "
            "the same gradients twice. Keep one of them.");
}

template <class Options>
void expect_refused(std::string_view table, std::string_view line) {
  std::string toml("[");
  toml.append(table).append("]\n").append(line).append("\n");
  EXPECT_THROW(static_cast<void>(deck(toml).read<Options>(table)), InputError) << line;
}

TEST(OptimDeck, ValuesOutOfRangeAreRefused) {
  for (const char* line : {"lr = -0.1",
                           "momentum = 1.5",
                           "dampening = -1.0",
                           "weight_decay = -1.0",
                           "kind = 'newton'",
                           "nesterov = 1",
                           "betas = [0.9, 1.5]",
                           "eps = -1e-8",
                           "trust_coefficient = -1.0",
                           "clip_norm = -1.0",
                           "clip_value = -1.0",
                           "group_lr_factor = [-1.0]",
                           "group_weight_decay = [-1.0]",
                           "not_adapted = [1]",
                           "alpha = -1.0",
                           "rho = 1.5",
                           "lr_decay = -1.0",
                           "initial_accumulator_value = -1.0",
                           "momentum_decay = -1.0",
                           "lambd = -1.0",
                           "t0 = -1.0"}) {
    expect_refused<OptimizerOptions>("optimizer", line);
  }
  for (const char* line : {"kind = 'linear'",
                           "unit = 'day'",
                           "step_size = 0",
                           "gamma = 0.0",
                           "t_max = 0",
                           "milestones = [0]",
                           "warmup = -1",
                           "start_factor = 1.5",
                           "total = -1",
                           "min_factor = -0.5",
                           "pct_start = 0.0",
                           "div_factor = 0.5",
                           "final_div_factor = 0.5",
                           "base_momentum = 0.0",
                           "max_momentum = 1.0",
                           "max_lr = -1.0",
                           "step_size_up = 0",
                           "step_size_down = -1",
                           "mode = 'square'",
                           "factor = 1.0",
                           "factor = 0.0",
                           "patience = -1",
                           "threshold = -1.0",
                           "threshold_mode = 'max'",
                           "cooldown = -1",
                           "min_lr = -1.0"}) {
    expect_refused<ScheduleOptions>("schedule", line);
  }
}

}  // namespace
}  // namespace lockstep
