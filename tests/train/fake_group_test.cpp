// Job sizes beyond any test machine: one rank of 4,096, with the plans, samplers, loader, model and
// gradient reduction of a real run.
#include <gtest/gtest.h>

#include <set>

#include <lockstep/comm/fake_group.hpp>
#include <lockstep/data/batches/sampler.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>

namespace lockstep::train {
namespace {

constexpr int ranks = 4096;

Deck deck_of(const std::string& batch_size) {
  return Deck::parse("[data]\nkind = \"synthetic\"\nsynthetic_samples = 9000\n", "fake",
                     {"model.kind=\"mlp\"", "model.hidden=[16]", "train.batch_size=" + batch_size});
}

TEST(FourThousandRanks, TrainBatchesCoverEachGlobalBatchOnce) {
  const BatchPlan plan(9000, 6000, ranks);
  const Permutation order(9000, 1234);
  std::multiset<std::int64_t> seen;
  std::int64_t fewest = 9000, most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const FakeGroup group(ranks, rank);
    const auto mine = plan.share(0, group.rank()).positions;
    fewest = std::min(fewest, mine.size());
    most = std::max(most, mine.size());
    for (auto p = mine.begin; p < mine.end; ++p) {
      seen.insert(order.indices()[static_cast<std::size_t>(p)]);
    }
  }
  EXPECT_EQ(seen.size(), 6000U);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 6000U);
  EXPECT_EQ(fewest, 1);
  EXPECT_EQ(most, 2);
}

TEST(FourThousandRanks, DistributedSamplersDealEverySample) {
  std::multiset<std::int64_t> seen;
  for (int rank = 0; rank < ranks; ++rank) {
    const DistributedSampler sampler(9000, ranks, rank, {.seed = 7});
    EXPECT_EQ(sampler.num_samples(), 3);
    seen.insert(sampler.indices().begin(), sampler.indices().end());
  }
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 9000U);
  EXPECT_EQ(seen.size(), 3U * ranks);
}

TEST(FourThousandRanks, OneOfThemTrainsItsShare) {
  for (const int rank : {0, 1903, 1904, 4095}) {
    auto deck = deck_of("6000");
    const Classification task(deck);
    const auto group = std::make_shared<FakeGroup>(ranks, rank);
    Trainer trainer(group, task, read_run_plan(deck));
    trainer.start_epoch(0);
    EXPECT_EQ(trainer.steps_an_epoch(), 2);
    const auto before = group->traffic();
    const double loss = trainer.step();
    // One all-reduce of one bucket: a rank's bytes per step do not grow with the number of ranks.
    EXPECT_EQ(group->traffic().operations - before.operations, 1);
    EXPECT_LT(group->traffic().bytes - before.bytes, (16 * 785 + 10 * 17) * 4 + 4 * 64);
    EXPECT_GT(loss, rank < 1904 ? 3.0 : 1.0);  // about log(10) a sample: two samples, then one
    EXPECT_LT(loss, rank < 1904 ? 8.0 : 4.0);
  }
}

TEST(FourThousandRanks, ARankWithoutSamplesTakesPart) {
  auto deck = deck_of("100");
  const Classification task(deck);
  const auto group = std::make_shared<FakeGroup>(ranks, 4095);
  Trainer trainer(group, task, read_run_plan(deck));
  trainer.start_epoch(0);
  const auto before = group->traffic();
  EXPECT_EQ(trainer.step(), 0.0);
  EXPECT_EQ(group->traffic().operations - before.operations, 1);
}

}  // namespace
}  // namespace lockstep::train
