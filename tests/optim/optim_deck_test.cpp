#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/schedule.hpp>

namespace lockstep {
namespace {

Deck deck(const std::string& toml) { return Deck::parse(toml, "test.toml"); }

TEST(OptimDeck, EveryKeyReachesItsOption) {
  const auto options =
      deck(
          "[optimizer]\nkind = 'sgd'\nlr = 0.5\nmomentum = 0.25\ndampening = 0.125\n"
          "nesterov = true\nweight_decay = 0.0625\n")
          .read<optim::OptimizerOptions>("optimizer");
  EXPECT_EQ(options.kind, optim::OptimizerOptions::Kind::sgd);
  EXPECT_EQ(options.lr, 0.5);
  EXPECT_EQ(options.momentum, 0.25);
  EXPECT_EQ(options.dampening, 0.125);
  EXPECT_TRUE(options.nesterov);
  EXPECT_EQ(options.weight_decay, 0.0625);

  const auto schedule =
      deck(
          "[schedule]\nkind = 'cosine'\nunit = 'step'\nstep_size = 7\ngamma = 0.5\n"
          "t_max = 9\neta_min = 0.25\n")
          .read<optim::ScheduleOptions>("schedule");
  EXPECT_EQ(schedule.kind, optim::ScheduleOptions::Kind::cosine);
  EXPECT_EQ(schedule.unit, optim::ScheduleOptions::Unit::step);
  EXPECT_EQ(schedule.step_size, 7);
  EXPECT_EQ(schedule.gamma, 0.5);
  EXPECT_EQ(schedule.t_max, 9);
  EXPECT_EQ(schedule.eta_min, 0.25);
}

template <class Options>
void expect_refused(std::string_view table, std::string_view line) {
  std::string toml("[");
  toml.append(table).append("]\n").append(line).append("\n");
  EXPECT_THROW(static_cast<void>(deck(toml).read<Options>(table)), InputError) << line;
}

TEST(OptimDeck, ValuesOutOfRangeAreRefused) {
  for (const char* line : {"lr = -0.1", "momentum = 1.5", "dampening = -1.0", "weight_decay = -1.0",
                           "kind = 'newton'", "nesterov = 1"}) {
    expect_refused<optim::OptimizerOptions>("optimizer", line);
  }
  for (const char* line :
       {"kind = 'linear'", "unit = 'day'", "step_size = 0", "gamma = 0.0", "t_max = 0"}) {
    expect_refused<optim::ScheduleOptions>("schedule", line);
  }
}

}  // namespace
}  // namespace lockstep
