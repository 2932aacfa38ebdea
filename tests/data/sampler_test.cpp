#include <lockstep/data/batches/sampler.hpp>

#include <gtest/gtest.h>

#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

std::vector<std::int64_t> list(const DistributedSampler& sampler) {
  return {sampler.indices().begin(), sampler.indices().end()};
}

TEST(DistributedSampler, OrderChangesWithTheEpochAndComesBack) {
  DistributedSampler sampler(1000, 4, 2, {.seed = 5});
  const auto epoch0 = list(sampler);
  sampler.set_epoch(1);
  const auto epoch1 = list(sampler);
  EXPECT_NE(epoch0, epoch1);
  sampler.set_epoch(0);
  EXPECT_EQ(list(sampler), epoch0);
}

TEST(DistributedSampler, SeedAndEpochAreOneNumber) {
  DistributedSampler a(100, 1, 0, {.seed = 3});
  DistributedSampler b(100, 1, 0, {.seed = 5});
  a.set_epoch(2);
  EXPECT_EQ(list(a), list(b));
}

TEST(DistributedSampler, EmptyDataSetGivesEmptyLists) {
  EXPECT_TRUE(DistributedSampler(0, 3, 1).indices().empty());
}

TEST(DistributedSampler, RankOutsideTheWorldIsRefused) {
  EXPECT_THROW(DistributedSampler(10, 4, 4), Error);
  EXPECT_THROW(DistributedSampler(10, 4, -1), Error);
  EXPECT_THROW(DistributedSampler(10, 0, 0), Error);
  EXPECT_THROW(DistributedSampler(-1, 2, 0), InputError);
}

}  // namespace
}  // namespace lockstep
