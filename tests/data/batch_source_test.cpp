#include <lockstep/data/batches/batch_source.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

using List = std::vector<std::int64_t>;

// The samples that all ranks read in an epoch, rank after rank within each step.
List epoch_of(const BatchPlan& plan, std::uint64_t seed, std::int64_t epoch) {
  std::vector<TrainBatches> ranks;
  for (int rank = 0; rank < plan.world(); ++rank)
    ranks.emplace_back(plan, rank, seed).start_epoch(epoch);
  List all;
  for (std::int64_t step = 0; step < plan.steps(); ++step) {
    for (auto& rank : ranks) {
      const auto mine = rank.indices(step);
      EXPECT_LE(std::ssize(mine), rank.largest_batch());
      all.insert(all.end(), mine.begin(), mine.end());
    }
  }
  return all;
}

TEST(TrainBatches, GlobalBatchesDoNotDependOnTheNumberOfRanks) {
  const List one = epoch_of(BatchPlan(1000, 96, 1), 1234, 3);
  ASSERT_EQ(one.size(), 1000U);
  for (const int world : {2, 3, 4, 8, 200}) {
    EXPECT_EQ(epoch_of(BatchPlan(1000, 96, world), 1234, 3), one) << world << " ranks";
  }
}

TEST(TrainBatches, EpochsAndSeedsGiveOtherOrders) {
  const BatchPlan plan(1000, 96, 2);
  EXPECT_NE(epoch_of(plan, 1, 0), epoch_of(plan, 1, 1));
  EXPECT_NE(epoch_of(plan, 1, 0), epoch_of(plan, 2, 0));
}

TEST(TrainBatches, WithoutShufflingStepsFollowTheFile) {
  TrainBatches batches(BatchPlan(10, 4, 2), 1, 7, {.on = false});
  batches.start_epoch(5);
  const auto mine = batches.indices(1);
  EXPECT_EQ(List(mine.begin(), mine.end()), (List{6, 7}));
}

TEST(EvalBatches, RankReadsItsBatchesInTheDataSetsOrder) {
  EvalBatches batches(EvalPlan(25, 10, 2), 0);
  EXPECT_EQ(batches.steps(), 2);
  const auto last = batches.indices(1);
  EXPECT_EQ(List(last.begin(), last.end()), (List{20, 21, 22, 23, 24}));
}

TEST(EvalBatches, RankWithoutBatchesHasNoSteps) {
  EvalBatches batches(EvalPlan(25, 10, 8), 5);
  EXPECT_EQ(batches.steps(), 0);
  EXPECT_EQ(batches.largest_batch(), 0);
}

}  // namespace
}  // namespace lockstep
