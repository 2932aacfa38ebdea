// A step of sums over shards with earlier gradients, and with gradients given to roots.
#include <gtest/gtest.h>

#include <cmath>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "gradient_numbers.hpp"
#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::gradients_in;
using test::make_batch;
using test::mean_loss;
using test::Mlp;
using test::Numbers;

class ShardStep : public testing::TestWithParam<int> {};

Batch batch_of(int step, std::int64_t shard) {
  return make_batch(2, step + 0.3 * static_cast<double>(shard));
}

/// The object whose zero_grad() is called, if any.
enum class Forgets : std::uint8_t { nobody, ddp, module, optimizer };

/// The gradients of two steps, with `who` dropping those of the first before this rank's shard `at`
/// in the second; or of the second step alone.
Numbers after_steps(const std::shared_ptr<ProcessGroup>& group, int first_step, std::int64_t each,
                    Forgets who, std::int64_t at) {
  const auto model = std::make_shared<Mlp>(1.0);
  DistributedDataParallel ddp(model, group,
                              {.buckets = {100, 200}, .shards = each * group->size()});
  const optim::SGD sgd(model->named_parameters(), {.lr = 0.1});
  for (int step = first_step; step < 2; ++step) {
    const Numbers before = gradients_in(*model);
    for (std::int64_t i = 0; i < each; ++i) {
      if (step == 1 && i == at) {
        EXPECT_EQ(gradients_in(*model), before) << "what there is between two shards";
        if (who == Forgets::ddp) ddp.zero_grad();
        if (who == Forgets::module) model->zero_grad();
        if (who == Forgets::optimizer) sgd.zero_grad();
      }
      mean_loss(ddp, batch_of(step, each * group->rank() + i)).backward();
    }
  }
  return gradients_in(*model);
}

TEST_P(ShardStep, DropsEarlierGradientsIfZeroedBetweenItsShards) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (const std::int64_t each : {1, 3}) {
      const Numbers second = after_steps(group, 1, each, Forgets::nobody, 0);
      const Numbers both = after_steps(group, 0, each, Forgets::nobody, 0);
      ASSERT_NE(both, second);
      for (std::int64_t at = 0; at < each; ++at) {
        EXPECT_EQ(after_steps(group, 0, each, Forgets::nobody, at), both);
        for (const Forgets who : {Forgets::ddp, Forgets::module, Forgets::optimizer}) {
          EXPECT_EQ(after_steps(group, 0, each, who, at), second)
              << "before shard " << at << " of " << each << ", way " << static_cast<int>(who);
        }
      }
    }
  });
}

TEST_P(ShardStep, DropsEarlierGradientsAfterAPassWithinNoSync) {
  test::on_ranks(GetParam(), [](const auto& group) {
    Numbers found[2];
    for (const bool forgets : {false, true}) {
      const auto model = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, {.shards = group->size()});
      const auto loss = [&](int step) { return mean_loss(ddp, batch_of(step, group->rank())); };
      if (forgets) {
        loss(0).backward();
        {
          const auto local = ddp.no_sync();
          loss(1).backward();
        }
        ddp.zero_grad();
      }
      loss(2).backward();
      found[forgets ? 1 : 0] = gradients_in(*model);
    }
    EXPECT_EQ(found[0], found[1]);
  });
}

// What is differentiated is the sum of root x gradient.
TEST_P(ShardStep, CountsRootsWithTheGradientsThatTheyWereGivenAsTheLoss) {
  test::on_ranks(GetParam(), [](const auto& group) {
    constexpr std::int64_t each = 2;
    const std::int64_t shards = each * group->size();
    const auto model = std::make_shared<Mlp>(1.0), other = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group, {.shards = shards}),
        by_losses(other, group, {.shards = shards});
    const auto rows = [](std::int64_t shard) {
      return Variable(test::wave({3, 6}, 0.2 * static_cast<double>(shard)));
    };
    const auto given = [](std::int64_t shard) {
      return test::wave({3, 4}, 1.0 + static_cast<double>(shard));
    };
    const Tensor half = Tensor::full({}, 0.5, DType::f64, test::asked_for_device());
    for (std::int64_t i = 0; i < each; ++i) {
      const std::int64_t shard = each * group->rank() + i;
      const Variable y = ddp.forward(rows(shard)), scalar = mean(y * y), plain = sum(y);
      backward(std::vector{y, scalar, plain}, std::vector{given(shard), half, Tensor()});
      const Variable z = by_losses.forward(rows(shard));
      (sum(z * Variable(given(shard))) + mean(z * z) * 0.5 + sum(z)).backward();
    }
    EXPECT_NEAR(ddp.stats().loss_of_batch.item(), by_losses.stats().loss_of_batch.item(), 1e-13);
    test::expect_near(gradients_in(*model), gradients_in(*other), "of roots with gradients");
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShardStep, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
