#include <lockstep/data/batches/batch_plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

TEST(BatchPlan, SixtyThousandBy128Is469StepsAnd468WithDropLast) {
  EXPECT_EQ(BatchPlan(60000, 128, 2).steps(), 469);
  EXPECT_EQ(BatchPlan(60000, 128, 2, true).steps(), 468);
  EXPECT_EQ(BatchPlan(60000, 128, 2).batch(468), (Range{59904, 60000}));
}

class AnyWorld : public testing::TestWithParam<int> {};

TEST_P(AnyWorld, SharesCoverEachBatchOnceInRankOrderAndDifferByAtMostOne) {
  const int world = GetParam();
  for (const auto& [samples, batch_size, drop_last] : {std::tuple{60000, 128, false},
                                                       {60000, 128, true},
                                                       {1000, 4096, false},
                                                       {8192, 8192, true},
                                                       {5, 1, false},
                                                       {10007, 333, false}}) {
    const BatchPlan plan(samples, batch_size, world, drop_last);
    std::int64_t position = 0;
    // The first, the second and the last two batches stand for all: the others are like the second.
    for (std::int64_t step = 0; step < plan.steps(); ++step) {
      if (step > 1 && step < plan.steps() - 2) {
        position += batch_size;
        continue;
      }
      const Range batch = plan.batch(step);
      ASSERT_EQ(batch.begin, position);
      std::int64_t least = batch.size(), most = 0;
      for (int rank = 0; rank < world; ++rank) {
        const Share share = plan.share(step, rank);
        ASSERT_EQ(share.positions.begin, position);
        ASSERT_EQ(share.first_in_batch, position - batch.begin);
        ASSERT_EQ(share.batch_size, batch.size());
        ASSERT_LE(share.size(), plan.largest_share(rank));
        position = share.positions.end;
        least = std::min(least, share.size());
        most = std::max(most, share.size());
      }
      ASSERT_EQ(position, batch.end);
      ASSERT_LE(most - least, 1);
      ASSERT_GE(least, 0);
    }
    const std::int64_t dropped = drop_last ? samples % batch_size : 0;
    ASSERT_EQ(position, samples - dropped);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, AnyWorld,
                         testing::Values(1, 2, 3, 4, 7, 64, 127, 128, 129, 1000, 4096));

TEST(BatchPlan, RanksBeyondTheBatchHaveNoSamples) {
  const BatchPlan plan(100, 2, 4096);
  EXPECT_EQ(plan.share(0, 1).size(), 1);
  EXPECT_EQ(plan.share(0, 2).size(), 0);
  EXPECT_EQ(plan.largest_share(4095), 0);
  EXPECT_EQ(plan.share(0, 4095).batch_size, 2);
}

TEST(BatchPlan, LastBatchIsSharedAmongAllRanks) {
  const BatchPlan plan(130, 128, 4);
  EXPECT_EQ(plan.share(1, 0), (Share{{128, 129}, 0, 2}));
  EXPECT_EQ(plan.share(1, 1), (Share{{129, 130}, 1, 2}));
  EXPECT_EQ(plan.share(1, 3), (Share{{130, 130}, 2, 2}));
}

TEST(BatchPlan, SizesBeyond32BitsAreExact) {
  const std::int64_t samples = (std::int64_t{1} << 40U) + 3;
  const BatchPlan plan(samples, 1024, 4096);
  EXPECT_EQ(plan.steps(), (std::int64_t{1} << 30U) + 1);
  EXPECT_EQ(plan.batch(plan.steps() - 1), (Range{samples - 3, samples}));
}

std::string message_of(std::int64_t samples, std::int64_t batch_size, bool drop_last) {
  try {
    BatchPlan(samples, batch_size, 2, drop_last);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(BatchPlan, BatchSizeZeroIsRefused) {
  EXPECT_NE(message_of(100, 0, false).find("the batch size is 0; it must be at least 1"),
            std::string::npos);
  EXPECT_NE(message_of(100, -5, false).find("-5"), std::string::npos);
}

TEST(BatchPlan, BatchLargerThanTheDataIsRefusedOnlyWithDropLast) {
  EXPECT_NE(message_of(100, 101, true).find("larger than the 100 samples"), std::string::npos);
  EXPECT_EQ(BatchPlan(100, 100, 2, true).steps(), 1);
  EXPECT_EQ(BatchPlan(100, 101, 2, false).batch(0), (Range{0, 100}));
}

TEST(BatchPlan, EmptyDataSetIsRefused) { EXPECT_NE(message_of(0, 10, false), ""); }

TEST(BatchPlan, StepsAndRanksOutsideAreRefused) {
  const BatchPlan plan(100, 10, 2);
  EXPECT_THROW(static_cast<void>(plan.batch(10)), Error);
  EXPECT_THROW(static_cast<void>(plan.batch(-1)), Error);
  EXPECT_THROW(static_cast<void>(plan.share(0, 2)), Error);
  EXPECT_THROW(static_cast<void>(plan.share(0, -1)), Error);
  EXPECT_THROW(BatchPlan(100, 10, 0), Error);
}

TEST_P(AnyWorld, EvaluationBatchesAreTheSameAndEachIsDealtOnce) {
  const int world = GetParam();
  const EvalPlan plan(10000, 300, world);
  ASSERT_EQ(plan.batches(), 34);
  std::vector<int> owners(34, 0);
  for (int rank = 0; rank < world; ++rank) {
    for (std::int64_t k = 0; k < plan.batches_of(rank); ++k) {
      const std::int64_t batch = plan.batch_of(rank, k);
      ASSERT_EQ(batch % world, rank);
      ++owners.at(static_cast<std::size_t>(batch));
    }
  }
  EXPECT_EQ(owners, std::vector<int>(34, 1));
  EXPECT_EQ(plan.batch(0), (Range{0, 300}));
  EXPECT_EQ(plan.batch(33), (Range{9900, 10000}));
}

TEST(EvalPlan, BadSizesAreRefused) {
  EXPECT_THROW(EvalPlan(0, 10, 1), InputError);
  EXPECT_THROW(EvalPlan(10, 0, 1), InputError);
  EXPECT_THROW(static_cast<void>(EvalPlan(10, 10, 1).batch(1)), Error);
}

}  // namespace
}  // namespace lockstep
