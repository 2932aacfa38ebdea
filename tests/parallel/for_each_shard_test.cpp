// The loop over a rank's shards, and bodies that throw or omit backward().
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "small_models.hpp"

namespace lockstep {
namespace {

TEST(ForEachShard, RunsTheShardsOfTheRankInOrder) {
  const auto group = std::make_shared<FakeGroup>(2, 1);
  const auto model = std::make_shared<test::Mlp>(1.0);
  DistributedDataParallel ddp(model, group, {.shards = 6});
  std::vector<std::int64_t> shards;
  ddp.for_each_shard([&](std::int64_t shard) {
    shards.push_back(shard);
    ddp.backward(test::mean_loss(ddp, test::make_batch(3, 0.5)), 1.0 / 6);
  });
  EXPECT_EQ(shards, (std::vector<std::int64_t>{3, 4, 5}));
  const auto message = test::message_of<Error>([&] {
    ddp.for_each_shard([&](std::int64_t shard) {
      if (shard > 3) ddp.backward({}, 0.0);
    });
  });
  EXPECT_NE(message.find("backward() once for every shard"), std::string::npos) << message;
}

TEST(ForEachShard, TellsABodyThatDoesNotCallBackwardOnceForEachOfThem) {
  const auto group = std::make_shared<FakeGroup>(2, 1);
  for (const std::int64_t shards : {0, 2, 6}) {
    DistributedDataParallel ddp(std::make_shared<test::Mlp>(1.0), group, {.shards = shards});
    const auto refused = [&](int calls) {
      return test::message_of<Error>([&] {
        ddp.for_each_shard([&](std::int64_t /*shard*/) {
          for (int call = 0; call < calls; ++call) ddp.backward({}, 0.0);
        });
      });
    };
    for (const int calls : {0, 2}) {
      const std::string message = refused(calls);
      EXPECT_NE(message.find("backward() once for every shard"), std::string::npos)
          << shards << " shards, " << calls << " calls: " << message;
    }
    EXPECT_EQ(refused(1), "nothing was thrown");
  }
}

TEST(ForEachShard, ForgetsTheShardsOfAStepThatFailed) {
  const auto group = std::make_shared<FakeGroup>(1, 0);
  const test::Batch batch = test::make_batch(6, 0.5);
  const auto gradient = [&](bool fails_before) {
    const auto model = std::make_shared<test::Mlp>(1.0);
    DistributedDataParallel ddp(model, group, {.shards = 6});
    const auto step = [&](std::int64_t bad) {
      ddp.for_each_shard([&](std::int64_t shard) {
        if (shard == bad) throw std::runtime_error("bad");
        ddp.backward(test::mean_loss(ddp, batch.rows(shard, shard + 1)), 1.0 / 6);
      });
    };
    if (fails_before) {
      EXPECT_THROW(step(4), std::runtime_error);
    }
    step(-1);
    return model->W1.grad().to_vector<double>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(ForEachShard, IsTheRankWithoutShards) {
  const auto group = std::make_shared<FakeGroup>(3, 2);
  DistributedDataParallel ddp(std::make_shared<test::Mlp>(1.0), group);
  std::vector<std::int64_t> shards;
  ddp.for_each_shard([&](std::int64_t shard) {
    shards.push_back(shard);
    ddp.backward({}, 0.0);
  });
  EXPECT_EQ(shards, (std::vector<std::int64_t>{2}));
}

}  // namespace
}  // namespace lockstep
