#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/train/report/report.hpp>
#include <lockstep/train/report/step_clock.hpp>

namespace lockstep::train {
namespace {

/// Of ten steps: 2 ms forward and 6 ms backward each.
StepTimes usual() {
  return {.compute = 0.085, .forward = 0.02, .backward = 0.06, .optimizer = 0.005, .steps = 10};
}

TEST(StepClock, PartsOfAStepAddUp) {
  StepClock clock;
  for (int step = 0; step < 2; ++step) {
    clock.add_step(10, {.forward = 2,
                        .backward = 3,
                        .optimizer = 0.5,
                        .communication = 3,
                        .communication_work = 1,
                        .communication_late = 1.5,
                        .data = 1,
                        .samples = 8});
  }
  const StepTimes total = clock.totals();
  EXPECT_EQ(total.compute, 12);
  EXPECT_EQ(total.forward, 4);
  EXPECT_EQ(total.backward, 6);
  EXPECT_EQ(total.optimizer, 1);
  EXPECT_EQ(total.communication, 6);
  EXPECT_EQ(total.communication_work, 2);
  EXPECT_EQ(total.communication_late, 3);
  EXPECT_EQ(total.communication_transfer(), 1);
  EXPECT_EQ(total.data, 2);
  EXPECT_EQ(total.samples, 16);
  EXPECT_EQ(total.steps, 2);
}

TEST(StepClock, PhasesAreTimedAndTraced) {
  const TraceSession session(10);
  double seconds = 0;
  { const StepClock::Phase phase(seconds, "forward"); }
  EXPECT_GT(seconds, 0.0);
  const auto tracks = session.tracks();
  ASSERT_EQ(tracks.size(), 1U);
  EXPECT_EQ(std::string(tracks[0].events.at(0).name), "forward");
}

TEST(SlowestRank, IsNamedWithThePhaseInWhichItIsBehind) {
  std::vector<StepTimes> ranks(4, usual());
  ranks[3].backward = 0.084;
  const auto slowest = slowest_rank(ranks);
  ASSERT_TRUE(slowest);
  EXPECT_EQ(slowest->rank, 3);
  EXPECT_EQ(slowest->text(),
            "rank 3 is slowest: 1.4 times the median in backward (8.4 against 6 ms a step)");
}

TEST(SlowestRank, OfTwoIsComparedWithTheOther) {
  std::vector<StepTimes> ranks(2, usual());
  ranks[0].data = 0.5;
  ranks[1].data = 0.25;
  const auto slowest = slowest_rank(ranks);
  ASSERT_TRUE(slowest);
  EXPECT_EQ(slowest->rank, 0);
  EXPECT_EQ(slowest->phase, "data");
  EXPECT_EQ(slowest->ratio, 2.0);
}

TEST(SlowestRank, IsNoneBelowTheThreshold) {
  std::vector<StepTimes> ranks(3, usual());
  EXPECT_FALSE(slowest_rank(ranks));
  ranks[1].backward += 0.0084;  // 1.099 of 85 ms
  EXPECT_FALSE(slowest_rank(ranks));
  ranks[1].backward += 0.0002;
  EXPECT_TRUE(slowest_rank(ranks));
}

TEST(SlowestRank, DoesNotBlameWaitingRanks) {
  std::vector<StepTimes> ranks(2, usual());
  ranks[1].communication = ranks[1].communication_late = 1.0;
  EXPECT_FALSE(slowest_rank(ranks));
}

TEST(SlowestRank, WhereTheMedianIsNextToNothingIsToldByItsDelay) {
  StepTimes usual_one{.forward = 0.1, .data = 0, .wall = 0.5, .steps = 100}, late = usual_one;
  late.data = 0.0454;
  for (const double median : {0.0, 0.004}) {
    usual_one.data = median;
    const auto slowest = slowest_rank(std::vector{late, usual_one, usual_one});
    ASSERT_TRUE(slowest);
    EXPECT_TRUE(std::isnan(slowest->ratio));
    if (median == 0) {
      EXPECT_EQ(slowest->text(), "rank 0 is slowest: 0.454 ms a step more than the median in data");
    }
  }
}

TEST(SlowestRank, NeedsOthers) { EXPECT_FALSE(slowest_rank(std::vector{usual()})); }

TEST(AnatomyTable, HasALineARankAndTheSentence) {
  std::vector<StepTimes> ranks(2, usual());
  ranks[0].communication = 0.04;
  ranks[0].communication_late = 0.03;
  ranks[1].backward = 0.09;
  const std::string table = anatomy_table(ranks);
  for (const char* part :
       {"late rank", "     0     2.000     6.000     0.500     0.000     0.000     3.000     1.000",
        "     1     2.000     9.000", "rank 1 is slowest: 1.5 times the median in backward"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
}

TEST(AnatomyTable, OfManyRanksShowsTheSpread) {
  std::vector<StepTimes> ranks(17, usual());
  ranks[5].forward = 0.01;
  const std::string table = anatomy_table(ranks);
  EXPECT_NE(table.find(" least     1.000     6.000"), std::string::npos) << table;
  EXPECT_NE(table.find("  most     2.000     6.000"), std::string::npos) << table;
  EXPECT_EQ(table.find("    16 "), std::string::npos) << table;
}

TEST(AnatomyTable, OfNoStepsIsEmpty) {
  EXPECT_EQ(anatomy_table({}), "");
  EXPECT_EQ(anatomy_table({StepTimes{}}), "");
}

}  // namespace
}  // namespace lockstep::train
