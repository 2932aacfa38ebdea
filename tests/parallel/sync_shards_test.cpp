// SyncBatchNorm with sums over shards: a rank's shards go on together from layer to layer, and the
// bits are those of one rank with all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <support/golden_file.hpp>
#include <support/message_of.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/sync_batch_norm.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

/// One convolution and one dropout are used on both sides of a normalisation; a layer and a buffer
/// are each shard's own business, and nobody uses the last layer.
struct ShardNet : nn::Module {
  explicit ShardNet(double dropout)
      : drop(register_module("drop", std::make_shared<nn::Dropout>(dropout))) {
    double phase = 0.3;
    for (const auto& [name, parameter] : named_parameters()) {
      parameter.data().copy_from(
          test::wave(parameter.shape(), phase++).to(parameter.data().dtype()));
    }
  }

  Variable forward(const Variable& x) override {
    nn::Linear& above = *extra[used];  // other shards set it for themselves
    steps.fill(steps.item() + 1.0);
    const Variable inner = relu(norm2d->forward((*conv)((*drop)(x))));
    const Variable features = (*flatten)((*drop)((*conv)(inner)));
    const Variable normed = norm1d->forward(features);
    return (*head)(normed) + above(normed);
  }

  std::shared_ptr<nn::Conv2d> conv = register_module(
      "conv", std::make_shared<nn::Conv2d>(4, 4, 3, Conv2dOptions{.padding = {1, 1}}));
  std::shared_ptr<nn::BatchNorm2d> norm2d =
      register_module("norm2d", std::make_shared<nn::BatchNorm2d>(4));
  std::shared_ptr<nn::Dropout> drop;
  std::shared_ptr<nn::Flatten> flatten =
      register_module("flatten", std::make_shared<nn::Flatten>());
  std::shared_ptr<nn::BatchNorm1d> norm1d =
      register_module("norm1d", std::make_shared<nn::BatchNorm1d>(36));
  std::shared_ptr<nn::Linear> head = register_module("head", std::make_shared<nn::Linear>(36, 4));
  std::array<std::shared_ptr<nn::Linear>, 3> extra{
      register_module("extra0", std::make_shared<nn::Linear>(36, 4)),
      register_module("extra1", std::make_shared<nn::Linear>(36, 4)),
      register_module("extra2", std::make_shared<nn::Linear>(36, 4))};
  Tensor steps = register_buffer("steps", Tensor::zeros({1}));
  std::size_t used = 0;
};

struct Data {
  Tensor x, target;
};

Data data_of(std::int64_t rows) {
  std::vector<std::int64_t> target(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < target.size(); ++i) target[i] = static_cast<std::int64_t>(i * 7 % 4);
  return {test::wave({rows, 4, 3, 3}, 0.2).to(nn::default_dtype()), Tensor::from(target, {rows})};
}

/// What a run of some steps leaves.
struct Left {
  std::vector<std::string> names;
  std::vector<std::vector<double>> numbers;
  bool operator==(const Left&) const = default;

  void add(const std::string& name, const Tensor& tensor) {
    names.push_back(name);
    numbers.push_back(tensor.defined() ? tensor.to(DType::f64).to_vector<double>()
                                       : std::vector<double>());
  }
};

struct Shards {
  std::int64_t shards = 12;
  double dropout = 0.4;
  std::int64_t parts = 1;   ///< of a shard, accumulated
  bool converts = true;     ///< else the model's layers are synchronised before
  bool uses_differ = true;  ///< between shards
};

/// Forward and backward of rows [begin, end) of a batch, which may be none.
void backward_of(DistributedDataParallel& ddp, const Data& batch, std::int64_t begin,
                 std::int64_t end) {
  const Variable output = ddp.forward(Variable(batch.x.slice(begin, end)));
  const double weight = static_cast<double>(end - begin) / static_cast<double>(batch.x.size(0));
  ddp.backward(begin < end ? cross_entropy(output, batch.target.slice(begin, end)) : sum(output),
               weight);
}

/// Three steps, of which the second has fewer samples than shards.
Left train_shards(const std::shared_ptr<ProcessGroup>& group, const Shards& run) {
  nn::manual_seed(7);
  const auto net = std::make_shared<ShardNet>(run.dropout);
  if (!run.converts) convert_sync_batchnorm(*net, *group);
  DistributedDataParallel ddp(
      net, group, {.buckets = {256, 1024}, .sync_batch_norm = run.converts, .shards = run.shards});
  optim::SGD sgd(net->named_parameters(), {.lr = 0.05, .momentum = 0.9});
  Left left;
  std::uint32_t step = 0;
  for (const std::int64_t rows : {std::int64_t{29}, std::int64_t{7}, std::int64_t{24}}) {
    const Data batch = data_of(rows);
    ddp.zero_grad();
    ddp.for_each_shard([&](std::int64_t shard) {
      const std::int64_t first = rows * shard / run.shards, last = rows * (shard + 1) / run.shards;
      for (std::int64_t part = 0; part < run.parts; ++part) {
        const std::int64_t begin = first + (last - first) * part / run.parts;
        const std::int64_t end = first + (last - first) * (part + 1) / run.parts;
        const nn::RandomContextGuard random({.seed = 5, .step = step, .first_sample = begin});
        net->used = run.uses_differ ? static_cast<std::size_t>(shard % 2) : 0;
        std::optional<DistributedDataParallel::NoSync> local;
        if (part + 1 < run.parts) local.emplace(ddp);
        backward_of(ddp, batch, begin, end);
      }
    });
    left.add("loss", Tensor::full({1}, ddp.loss_of_batch(), DType::f64));
    for (const auto& [name, parameter] : net->named_parameters()) left.add(name, parameter.grad());
    sgd.step();
    ++step;
  }
  for (const auto& entry : net->state_dict()) left.add(entry.name, entry.tensor);
  return left;
}

Left train_alone(const Shards& run) { return train_shards(std::make_shared<FakeGroup>(1, 0), run); }

class SyncShards : public testing::TestWithParam<int> {
 protected:
  static void expect_bits_of_one_rank(const Shards& run) {
    const Left alone = train_alone(run);
    ASSERT_GT(alone.numbers.size(), 40U);
    test::on_ranks(GetParam(), [&](const auto& group) {
      const Left found = train_shards(group, run);
      ASSERT_EQ(found.names, alone.names);
      for (std::size_t i = 0; i < alone.names.size(); ++i) {
        EXPECT_EQ(found.numbers[i], alone.numbers[i]) << alone.names[i] << ", entry " << i;
      }
    });
  }
};

TEST_P(SyncShards, GiveTheBitsOfOneRankWithAllOfThem) { expect_bits_of_one_rank({}); }

TEST_P(SyncShards, GiveThemInPartsThatAreAccumulated) { expect_bits_of_one_rank({.parts = 3}); }

TEST_P(SyncShards, GiveThemWithOneShardARank) {
  // With twice and thrice as many the bits are others, but the same on one rank.
  for (const int each : {1, 2, 3}) {
    expect_bits_of_one_rank({.shards = std::int64_t{each} * GetParam()});
  }
}

TEST_P(SyncShards, TakeLayersThatAreSynchronisedAlready) {
  const Left converted = train_alone({});
  test::on_ranks(GetParam(), [&](const auto& group) {
    EXPECT_TRUE(train_shards(group, {.converts = false}) == converted);
  });
}

TEST_P(SyncShards, AreTheTrainingOfOneRankWithTheWholeBatch) {
  const nn::DTypeGuard in_double(DType::f64);
  for (const std::int64_t parts : {1, 2}) {
    test::on_ranks(GetParam(), [&](const auto& group) {
      const nn::DTypeGuard in_thread(DType::f64);
      // Parts of 24 rows of 12 shards are of one row each: as if all first rows came first.
      const Data batch = data_of(24);
      const auto whole = std::make_shared<ShardNet>(0.0), net = std::make_shared<ShardNet>(0.0);
      for (std::int64_t part = 0; part < parts; ++part) {
        std::vector<Variable> rows;
        std::vector<std::int64_t> targets;
        for (std::int64_t row = 0; row < 24; ++row) {
          if (parts == 2 && row % 2 != part) continue;
          rows.emplace_back(batch.x.slice(row, row + 1));
          targets.push_back(batch.target.to_vector<std::int64_t>()[static_cast<std::size_t>(row)]);
        }
        const auto count = static_cast<std::int64_t>(targets.size());
        cross_entropy(whole->forward(concat(rows, 0)), Tensor::from(targets, {count}))
            .backward(static_cast<double>(count) / 24.0);
      }
      DistributedDataParallel ddp(net, group, {.sync_batch_norm = true, .shards = 12});
      ddp.for_each_shard([&](std::int64_t shard) {
        for (std::int64_t part = 0; part < parts; ++part) {
          std::optional<DistributedDataParallel::NoSync> local;
          if (part + 1 < parts) local.emplace(ddp);
          const std::int64_t begin = 2 * shard + part;
          backward_of(ddp, batch, begin, parts == 2 ? begin + 1 : begin + 2);
        }
      });
      const auto expected = whole->named_parameters(), found = net->named_parameters();
      for (std::size_t p = 0; p < expected.size(); ++p) {
        const Tensor oracle = expected[p].variable.grad(), gradient = found[p].variable.grad();
        ASSERT_EQ(gradient.defined(), oracle.defined()) << expected[p].name;
        if (oracle.defined()) {
          EXPECT_LE(test::max_difference(gradient, oracle), 1e-13) << expected[p].name;
        }
      }
      const StateDict moved = net->state_dict();
      for (const auto& [name, buffer] : whole->named_buffers()) {
        EXPECT_LE(test::max_difference(moved.at(name).to(DType::f64), buffer.to(DType::f64)), 1e-14)
            << name;
      }
    });
  }
}

TEST_P(SyncShards, DrawAndComputeAsTheirRank) {
  test::on_ranks(GetParam(), [](const auto& group) {
    nn::manual_seed(11);
    const auto net = std::make_shared<ShardNet>(0.5);
    DistributedDataParallel ddp(net, group, {.sync_batch_norm = true, .shards = 12});
    const Data batch = data_of(24);
    std::vector<std::vector<float>> masks;
    const int rank = thread_rank();
    ddp.for_each_shard([&](std::int64_t shard) {
      EXPECT_EQ(thread_rank(), rank);
      const Variable ones(Tensor::full({64}, 1.0));
      masks.push_back(net->drop->forward(ones).data().template to_vector<float>());
      backward_of(ddp, batch, 2 * shard, 2 * shard + 2);
    });
    ASSERT_EQ(masks.size(), static_cast<std::size_t>(ddp.shards()));
    EXPECT_EQ(std::set<std::vector<float>>(masks.begin(), masks.end()).size(), masks.size());
  });
}

/// Numbers of ranks that can share 12 shards.
std::vector<int> sizes() {
  auto counts = test::rank_counts();
  std::erase_if(counts, [](int ranks) { return 12 % ranks != 0; });
  return counts;
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SyncShards);  // under mpiexec with 5
INSTANTIATE_TEST_SUITE_P(Ranks, SyncShards, testing::ValuesIn(sizes()),
                         testing::PrintToStringParamName());

/// What goes wrong on one rank that has all four shards.
class SyncShardsGoWrong : public testing::Test {
 protected:
  std::shared_ptr<FakeGroup> group = std::make_shared<FakeGroup>(1, 0);
  std::shared_ptr<ShardNet> net = std::make_shared<ShardNet>(0.0);
  DistributedDataParallel ddp{net, group, {.sync_batch_norm = true, .shards = 4}};
  Data batch = data_of(8);

  void backward(std::int64_t shard) { backward_of(ddp, batch, 2 * shard, 2 * shard + 2); }
  std::string refused(const std::function<void(std::int64_t)>& body) {
    return test::message_of<Error>([&] { ddp.for_each_shard(body); });
  }
  Left state() {
    Left left;
    for (const auto& [name, parameter] : net->named_parameters()) left.add(name, parameter.grad());
    for (const auto& entry : net->state_dict()) left.add(entry.name, entry.tensor);
    return left;
  }
};

TEST_F(SyncShardsGoWrong, AnExceptionEndsAllShardsAndTheStepLeavesNothing) {
  DistributedDataParallel fresh_ddp(std::make_shared<ShardNet>(0.0), group,
                                    {.sync_batch_norm = true, .shards = 4});
  fresh_ddp.for_each_shard(
      [&](std::int64_t shard) { backward_of(fresh_ddp, batch, 2 * shard, 2 * shard + 2); });
  for (std::int64_t bad = 0; bad < 4; ++bad) {
    for (const bool in_the_midst : {false, true}) {
      const StateDict before = net->state_dict();
      const auto norm_before = before.at("norm2d.running_mean").to_vector<float>();
      int ended = 0;
      const auto thrown = test::message_of<std::runtime_error>([&] {
        ddp.for_each_shard([&](std::int64_t shard) {
          if (shard == bad && !in_the_midst) throw std::runtime_error("bad at once");
          const Variable output = ddp.forward(Variable(batch.x.slice(2 * shard, 2 * shard + 2)));
          if (shard == bad) throw std::runtime_error("bad in the midst");
          ddp.backward(cross_entropy(output, batch.target.slice(2 * shard, 2 * shard + 2)), 0.25);
          ++ended;
        });
      });
      EXPECT_EQ(thrown, in_the_midst ? "bad in the midst" : "bad at once");
      EXPECT_EQ(ended, 0);
      EXPECT_EQ(net->state_dict().at("norm2d.running_mean").to_vector<float>(), norm_before);
    }
  }
  ddp.for_each_shard([&](std::int64_t shard) { backward(shard); });
  const auto expected = fresh_ddp.module().named_parameters(), found = net->named_parameters();
  for (std::size_t p = 0; p + 4 < expected.size(); ++p) {
    EXPECT_EQ(found[p].variable.grad().to_vector<float>(),
              expected[p].variable.grad().to_vector<float>())
        << expected[p].name;
  }
}

TEST_F(SyncShardsGoWrong, ForwardOutsideOfForEachShardIsRefused) {
  const auto message = test::message_of<Error>(
      [&] { static_cast<void>(ddp.forward(Variable(batch.x.slice(0, 2)))); });
  EXPECT_NE(message.find("within DistributedDataParallel::for_each_shard()"), std::string::npos)
      << message;
  net->eval();
  EXPECT_NO_THROW(static_cast<void>(ddp.forward(Variable(batch.x.slice(0, 2)))));
}

TEST_F(SyncShardsGoWrong, ShardsThatDoNotRunTheSameLayersAreTold) {
  for (std::int64_t other = 0; other < 4; ++other) {
    // One normalises more often, one less, one in another layer.
    const auto more = refused([&](std::int64_t shard) {
      backward(shard);
      if (shard == other) static_cast<void>(net->norm1d->forward(Variable(Tensor::zeros({2, 36}))));
    });
    EXPECT_NE(more.find("has ended, but"), std::string::npos) << more;
    const auto none = refused([&](std::int64_t shard) {
      if (shard != other) backward(shard);
    });
    EXPECT_NE(none.find("has ended, but"), std::string::npos) << none;
    const auto different = refused([&](std::int64_t shard) {
      if (shard == other) {
        static_cast<void>(net->norm1d->forward(Variable(Tensor::zeros({2, 36}))));
      }
      backward(shard);
    });
    EXPECT_NE(different.find("the same SyncBatchNorm layers"), std::string::npos) << different;
  }
}

TEST_F(SyncShardsGoWrong, EachShardCallsBackwardOnce) {
  const auto never = refused([&](std::int64_t shard) {
    const auto local = ddp.no_sync();
    backward(shard);
  });
  EXPECT_NE(never.find("shard 0 without backward()"), std::string::npos) << never;
  const auto twice = refused([&](std::int64_t shard) {
    backward(shard);
    backward(shard);
  });
  EXPECT_NE(twice.find("called again for one shard"), std::string::npos) << twice;
  const auto within = refused([&](std::int64_t shard) {
    ddp.for_each_shard([&](std::int64_t inner) { backward(inner + shard); });
  });
  EXPECT_NE(within.find("from inside for_each_shard()"), std::string::npos) << within;
  EXPECT_NO_THROW(ddp.for_each_shard([&](std::int64_t shard) { backward(shard); }));
}

TEST(ForEachShard, GoesFromShardToShardWhereForwardIsNotCollective) {
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
