// One order of summation over shards, whatever ranks hold them.
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/parallel/bucket.hpp>
#include <lockstep/parallel/comm_hook.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/shard_sum.hpp>
#include <lockstep/parallel/sync_batch_norm.hpp>
#include <support/message_of.hpp>

#include "asked_for_device.hpp"
#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

/// Of one shard: numbers of very different sizes, so that each order of sums has its own bits.
template <class T>
std::vector<T> numbers_of(std::int64_t shard, std::int64_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(shard));
  std::uniform_real_distribution<double> mantissa(-1.0, 1.0), exponent(-12.0, 12.0);
  std::vector<T> numbers;
  for (std::int64_t i = 0; i < count; ++i)
    numbers.push_back(static_cast<T>(mantissa(random) * std::exp2(exponent(random))));
  if (count > 1) numbers[1] = T(-0.0);
  return numbers;
}

/// The definition, word for word.
template <class T>
std::vector<T> sum_of(std::int64_t first, std::int64_t last, std::int64_t count) {
  if (last - first == 1) return numbers_of<T>(first, count);
  const std::int64_t middle = first + (last - first) / 2;
  auto sum = sum_of<T>(first, middle, count);
  const auto right = sum_of<T>(middle, last, count);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
  return sum;
}

template <class T>
void expect_the_tree(ProcessGroup& group, std::int64_t shards, std::int64_t count) {
  const ShardTree tree(shards);
  const ShardRange own = tree.of_rank(group.rank(), group.size());
  const Tensor value = memory_to_reduce(group, {count}, dtype_of<T>, Device{});
  ShardSum sum(group, tree, value);
  const auto expected = sum_of<T>(0, shards, count);
  for (int step = 0; step < 3; ++step) {
    for (std::int64_t shard = own.first; shard < own.last; ++shard) {
      const auto numbers = numbers_of<T>(shard, count);
      const bool last = shard + 1 == own.last;
      const Tensor place = last || step == 1 ? value : sum.place_of(shard - own.first);
      place.copy_from_host(std::span<const T>(numbers));
      if (!last) sum.keep(place);
    }
    sum.start(group).wait();
    sum.finish(group);
    const auto found = value.to_vector<T>();
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(T)), 0)
        << count << " numbers, " << shards << " shards, step " << step << ", rank " << group.rank()
        << " of " << group.size();
  }
}

void expect_the_tree_of_all_sizes(ProcessGroup& group) {
  for (const std::int64_t shards : {1, 2, 3, 4, 5, 6, 7, 8, 12, 24, 30}) {
    if (shards % group.size() != 0) continue;
    for (const std::int64_t count : {1, 2, 5, 64, 1001}) {
      expect_the_tree<float>(group, shards, count);
      expect_the_tree<double>(group, shards, count);
    }
  }
}

class ShardSums : public testing::TestWithParam<int> {};

TEST_P(ShardSums, HaveTheBitsOfTheTreeOnEveryNumberOfRanks) {
  test::on_ranks(GetParam(), [](const auto& group) { expect_the_tree_of_all_sizes(*group); });
}

TEST_P(ShardSums, GiveALoopOfOnesOwnTheGradientAndTheLossOfTheWholeBatch) {
  if (12 % GetParam() != 0) return;
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<nn::Linear>(3, 2);
    DistributedDataParallel ddp(model, group, {.shards = 12});
    const std::int64_t each = 12 / group->size();
    EXPECT_FALSE(ddp.stats().loss_of_batch.defined());
    // Shard s has the samples x = s and x = -s / 2, except the last, which has none.
    double expected = 0.0;
    for (std::int64_t shard = 0; shard < 11; ++shard) expected += 0.25 * static_cast<double>(shard);
    for (std::int64_t i = 0; i < each; ++i) {
      const std::int64_t shard = group->rank() * each + i;
      Variable loss;
      if (shard < 11) {
        const auto x = static_cast<float>(shard);
        const Tensor rows = Tensor::from<float>(std::vector<float>{x, x, x, -x / 2, -x / 2, -x / 2},
                                                {2, 3}, test::asked_for_device());
        loss = mean(ddp.forward(Variable(rows)));
      }
      ddp.backward(loss, shard < 11 ? 2.0 / 22.0 : 0.0);
    }
    for (const float g : model->parameters()[0].grad().to_vector<float>())
      EXPECT_NEAR(g, expected / 11.0 / 2.0, 1e-6);
    double direct = 0.0;  // of the same samples at once
    const auto weight = model->parameters()[0].data().to_vector<float>();
    const auto bias = model->parameters()[1].data().to_vector<float>();
    for (const float w : weight) direct += w * expected / 11.0 / 2.0;
    direct += (bias[0] + bias[1]) / 2.0;
    EXPECT_NEAR(ddp.stats().loss_of_batch.item(), direct, 1e-6);
  });
}

TEST_P(ShardSums, AreRefusedWithAHookOfOnesOwn) {
  if (12 % GetParam() != 0) return;
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<nn::Linear>(3, 2);
    EXPECT_THROW(DistributedDataParallel(model, group, {.shards = 12},
                                         std::make_shared<CompressHook>(DType::bf16)),
                 InputError);
    EXPECT_THROW(DistributedDataParallel(model, group,
                                         {.comm_hook = CommHookKind::bf16_compress, .shards = 12}),
                 InputError);
  });
}

TEST_P(ShardSums, AreRefusedWithSyncBatchNormOnEveryRankAndWithTheRemedy) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const std::int64_t shards = 2 * group->size();
    const auto expect_refused = [&](const std::shared_ptr<nn::Module>& model,
                                    const DdpOptions& options, const std::string& what) {
      const auto message =
          test::message_of<InputError>([&] { DistributedDataParallel(model, group, options); });
      EXPECT_NE(message.find(what), std::string::npos) << message;
      EXPECT_NE(message.find("train.reduction = \"fast\""), std::string::npos) << message;
    };
    expect_refused(test::batch_norm_model(), {.sync_batch_norm = true, .shards = shards},
                   "ddp.sync_batch_norm must be false");
    const auto converted = test::batch_norm_model();
    convert_sync_batchnorm(*converted, *group);
    expect_refused(converted, {.shards = shards}, "no SyncBatchNorm");
    EXPECT_NO_THROW(DistributedDataParallel(test::batch_norm_model(), group, {.shards = shards}));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShardSums, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

TEST(ShardTree, RefusesRanksThatDoNotDivideTheShardsAndNamesThoseThatDo) {
  try {
    static_cast<void>(ShardTree(12).of_rank(0, 5));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "5 ranks cannot share 12 shards of a batch evenly (train.shards); 1, 2, 3, 4, 6 or 12 "
        "can");
  }
  EXPECT_THROW(ShardTree(0), InputError);
}

TEST(ShardTree, KnowsItsNodesHalves) {
  const ShardTree tree(6);  // (0 (1 2)) (3 (4 5))
  EXPECT_TRUE(tree.are_halves({0, 3}, {3, 6}));
  EXPECT_TRUE(tree.are_halves({0, 1}, {1, 3}));
  EXPECT_TRUE(tree.are_halves({1, 2}, {2, 3}));
  EXPECT_FALSE(tree.are_halves({0, 1}, {1, 2}));
  EXPECT_FALSE(tree.are_halves({2, 3}, {3, 4}));
  EXPECT_FALSE(tree.are_halves({0, 2}, {2, 6}));
  EXPECT_FALSE(tree.are_halves({0, 1}, {2, 3}));
}

}  // namespace
}  // namespace lockstep
