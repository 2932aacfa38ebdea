// Samples with different weights: the gradient is that of one rank with all samples.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include <lockstep/comm/fake_group.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::Mlp;

constexpr std::int64_t rows = 13, shards = 60;

/// Of every sample; some are 0.
Tensor sample_weights() {
  std::vector<double> weights(rows);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.25 * static_cast<double>(i % 5);
  return Tensor::from(weights, {rows}, test::asked_for_device());
}

double total_weight() {
  const auto weights = sample_weights().to_vector<double>();
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

/// Sum over the rows from `begin` on of a sample's weight times its loss; undefined without rows.
template <class Model>
Variable weighted_loss(Model& model, std::int64_t begin, std::int64_t end) {
  if (begin == end) return {};
  const Batch part = test::make_batch(rows, 0.5).rows(begin, end);
  const Variable of_each =
      cross_entropy(model.forward(Variable(part.x)), part.target, {.reduction = Reduction::none});
  return sum(mul(of_each, Variable(sample_weights().slice(begin, end))));
}

using Gradients = std::vector<std::vector<double>>;

Gradients gradients_of(const Mlp& model) {
  Gradients gradients;
  for (const Variable& parameter : {model.W1, model.b1, model.W2, model.b2})
    gradients.push_back(parameter.grad().to_vector<double>());
  return gradients;
}

/// Backward of all rows, shard by shard where there are some; else in two parts.
Gradients gradients_over(const std::shared_ptr<ProcessGroup>& group, std::int64_t shard_count) {
  const auto model = std::make_shared<Mlp>(1.0);
  DistributedDataParallel ddp(model, group, {.shards = shard_count});
  const auto backward = [&](std::int64_t part, std::int64_t of) {
    ddp.backward(weighted_loss(ddp, rows * part / of, rows * (part + 1) / of),
                 1.0 / total_weight());
  };
  if (shard_count > 0) {
    ddp.for_each_shard([&](std::int64_t shard) { backward(shard, shard_count); });
  } else {
    const std::int64_t parts = 2 * std::int64_t{group->size()};
    {
      const auto local = ddp.no_sync();
      backward(2 * std::int64_t{group->rank()}, parts);
    }
    backward(2 * std::int64_t{group->rank()} + 1, parts);
  }
  return gradients_of(*model);
}

class SampleWeights : public testing::TestWithParam<int> {};

TEST_P(SampleWeights, GiveTheGradientOfOneRankWithAllSamples) {
  Mlp whole(1.0);
  weighted_loss(whole, 0, rows).backward(1.0 / total_weight());
  const Gradients expected = gradients_of(whole);
  test::on_ranks(GetParam(), [&](const auto& group) {
    const Gradients found = gradients_over(group, 0);
    for (std::size_t p = 0; p < expected.size(); ++p) {
      for (std::size_t i = 0; i < expected[p].size(); ++i)
        EXPECT_NEAR(found[p][i], expected[p][i], 1e-15);
    }
  });
}

TEST_P(SampleWeights, GiveItsBitsShardByShard) {
  const Gradients expected = gradients_over(std::make_shared<FakeGroup>(1, 0), shards);
  test::on_ranks(GetParam(),
                 [&](const auto& group) { EXPECT_EQ(gradients_over(group, shards), expected); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SampleWeights, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
