#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/nn/layers/batch_norm.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::make_batch;
using test::max_difference;
using test::mean_loss;
using test::Mlp;

class Ddp : public testing::TestWithParam<int> {};

double weight_of(const Batch& share, const Batch& whole) {
  return static_cast<double>(share.rows()) / static_cast<double>(whole.rows());
}

/// The gradients of `ddp` equal those of `batch`, of which this rank computes its share.
void backward(DistributedDataParallel& ddp, const Batch& batch) {
  ddp.zero_grad();
  const Batch share = batch.share(ddp.group().rank(), ddp.group().size());
  ddp.backward(mean_loss(ddp, share), weight_of(share, batch));
}

std::string hash_of(const StateDict& state) {
  Hasher hasher;
  for (const auto& entry : state) {
    const auto values = entry.tensor.to(DType::f64).to_vector<double>();
    hasher.update(values.data(), values.size() * sizeof(double));
  }
  return to_hex(hasher.digest());
}

/// By name; those that there are.
StateDict gradients_of(const nn::Module& module) {
  StateDict gradients;
  for (const auto& [name, variable] : module.named_parameters()) {
    if (variable.grad().defined()) gradients.insert(name, variable.grad());
  }
  return gradients;
}

/// Limits that give one bucket, one per parameter, and something between.
std::vector<DdpOptions> bucket_limits() {
  return {{}, {.buckets = {1, 1}}, {.buckets = {100, 200}}};
}

TEST_P(Ddp, RunningStatisticsBecomeRankZerosWhenTheyAreBroadcast) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto model = std::make_shared<nn::BatchNorm1d>(3);
    DistributedDataParallel ddp(model, group);
    const Tensor x = test::wave({4, 3}, 1.0 + group->rank(), DType::f32);
    const Variable y = ddp.forward(Variable(x));
    const auto target = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 0}, {4});
    ddp.backward(cross_entropy(y, target.to(test::asked_for_device())), 1.0);
    const bool same_before = test::same_on_all_ranks(*group, hash_of(model->state_dict()));
    EXPECT_EQ(same_before, group->size() == 1) << "each rank saw other samples";

    nn::BatchNorm1d alone(3);
    static_cast<void>(alone.forward(Variable(test::wave({4, 3}, 1.0, DType::f32))));
    ddp.broadcast_buffers();
    EXPECT_EQ(hash_of(model->state_dict()), hash_of(alone.state_dict())) << "what rank 0 saw";
  });
}

/// Plain gradient descent that counts its kernels.
class CountingDescent : public optim::Optimizer {
 public:
  explicit CountingDescent(std::vector<nn::NamedParameter> parameters)
      : Optimizer(std::move(parameters), {.lr = 0.5, .slots = {"slot"}}, {}) {}
  [[nodiscard]] double momentum() const noexcept override { return 0.0; }
  int kernels = 0;

 private:
  void update(const Run& run) override {
    ++kernels;
    add_scaled(run.gradient, -run.lr, run.parameter);
    run.slots[0].fill(7.0);
  }
  void keep_momentum(double /*momentum*/) override {}
};

TEST_P(Ddp, ABucketsParametersAreUpdatedByOneKernel) {
  const Batch batch = make_batch(13, 0.5);
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const DdpOptions& options : bucket_limits()) {
      const auto model = std::make_shared<Mlp>(1.0), reference = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, options);
      CountingDescent descent(model->named_parameters());
      backward(ddp, batch);
      descent.step();
      // Unused parameters have a bucket of their own, unless there is only one.
      const auto buckets = static_cast<int>(ddp.stats().buckets);
      EXPECT_EQ(descent.kernels, buckets > 1 ? buckets - 1 : 1);
      const auto moved = model->named_parameters(), start = reference->named_parameters();
      for (std::size_t i = 0; i < moved.size(); ++i) {
        auto expected = start[i].variable.data().template to_vector<double>();
        if (!moved[i].variable.grad().defined()) continue;
        const auto gradient = moved[i].variable.grad().template to_vector<double>();
        for (std::size_t e = 0; e < expected.size(); ++e) expected[e] -= 0.5 * gradient[e];
        EXPECT_EQ(moved[i].variable.data().template to_vector<double>(), expected);
      }
      for (const auto& entry : descent.state_dict()) {
        if (!entry.name.ends_with("/slot") || entry.name == "unused/slot") continue;
        for (const double value : entry.tensor.template to_vector<double>()) EXPECT_EQ(value, 7.0);
      }
    }
  });
}

TEST_P(Ddp, GradientOfManyRanksIsThatOfOneRankWithTheWholeBatch) {
  const Batch batch = make_batch(13, 0.5);
  Mlp whole(1.0);
  mean_loss(whole, batch).backward();
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const DdpOptions& options : bucket_limits()) {
      const auto model = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, options);
      backward(ddp, batch);
      const auto expected = whole.named_parameters(), actual = model->named_parameters();
      for (std::size_t i = 0; i < actual.size(); ++i) {
        if (actual[i].name == "unused") continue;
        EXPECT_LE(max_difference(actual[i].variable.grad(), expected[i].variable.grad()), 1e-14)
            << actual[i].name << " in " << ddp.stats().buckets << " buckets";
      }
    }
  });
}

TEST_P(Ddp, TinyLimitsGiveEachParameterItsBucket) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    EXPECT_EQ(DistributedDataParallel(model, group).stats().buckets, 1U);
    EXPECT_EQ(DistributedDataParallel(model, group, {.buckets = {1, 1}}).stats().buckets, 5U);
  });
}

TEST_P(Ddp, ParametersAndBuffersComeFromRankZero) {
  const std::string zeros = hash_of(Mlp(0.0).state_dict());
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto model = std::make_shared<Mlp>(group->rank());
    const DistributedDataParallel ddp(model, group);
    EXPECT_EQ(hash_of(ddp.state_dict()), zeros);
    EXPECT_EQ(hash_of(model->state_dict()), zeros);
    EXPECT_NE(ddp.state_dict().find("statistics"), nullptr);
  });
}

TEST_P(Ddp, GradientsAreViewsOfTheirBucket) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    backward(ddp, make_batch(8, 0.5));
    const auto storage = model->W1.grad().storage();
    for (const auto& parameter : model->parameters()) {
      EXPECT_EQ(parameter.grad_buffer().storage(), storage);
    }
  });
}

TEST_P(Ddp, ParameterThatNoRankUsesKeepsItsValueAndMomentum) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (const DdpOptions& options : bucket_limits()) {
      const auto model = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, options);
      optim::SGD sgd(model->named_parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.5});
      model->unused.grad_buffer().fill(7.0);
      const auto before = model->unused.data().template to_vector<double>();
      for (int step = 0; step < 3; ++step) {
        backward(ddp, make_batch(8, 0.5));
        EXPECT_FALSE(model->unused.grad().defined());
        EXPECT_TRUE(model->W1.grad().defined());
        sgd.step();
      }
      EXPECT_EQ(model->unused.data().template to_vector<double>(), before);
      for (const auto& entry : sgd.state_dict()) {
        if (!entry.name.starts_with("unused/")) continue;
        for (const double value : entry.tensor.to(DType::f64).template to_vector<double>()) {
          EXPECT_EQ(value, 0.0) << entry.name;
        }
      }
    }
  });
}

/// A rank without samples reaches nothing, and learns from the others which parameters were
/// reached.
TEST_P(Ddp, ParameterThatOnlyOtherRanksUseIsUpdatedOnAllRanks) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (const DdpOptions& options : bucket_limits()) {
      const auto model = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, options);
      const bool mine = group->rank() == group->size() - 1;
      ddp.backward(mine ? mean_loss(ddp, make_batch(4, 0.5)) : Variable(), 1.0);
      EXPECT_TRUE(model->W1.grad().defined());
      EXPECT_FALSE(model->unused.grad().defined());
      EXPECT_TRUE(test::same_on_all_ranks(*group, hash_of(gradients_of(*model))));
      ddp.zero_grad();
      ddp.backward(Variable(), 0.0);
      EXPECT_FALSE(model->W1.grad().defined()) << "nobody had samples";
    }
  });
}

// Each rank any number of times: within no_sync() nothing is sent.
TEST_P(Ddp, AccumulatesWithoutSendingInsideNoSync) {
  const Batch batch = make_batch(13, 0.5);
  Mlp whole(1.0);
  mean_loss(whole, batch).backward();
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const DdpOptions& options : bucket_limits()) {
      const auto model = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, options);
      const Batch share = batch.share(group->rank(), group->size());
      for (int round = 0; round < 2; ++round) {
        ddp.zero_grad();
        const std::int64_t pieces = group->rank() % 3 + 1;
        const auto piece = [&](std::int64_t p) {
          const Batch rows = share.rows(share.rows() * p / pieces, share.rows() * (p + 1) / pieces);
          ddp.backward(mean_loss(ddp, rows), weight_of(rows, batch));
        };
        for (std::int64_t p = 0; p + 1 < pieces; ++p) {
          const auto local = ddp.no_sync();
          piece(p);
        }
        piece(pieces - 1);
        const auto expected = whole.named_parameters(), actual = model->named_parameters();
        for (std::size_t i = 0; i < actual.size(); ++i) {
          if (actual[i].name == "unused") continue;
          EXPECT_LT(max_difference(actual[i].variable.grad(), expected[i].variable.grad()), 1e-14)
              << actual[i].name << " in round " << round;
        }
      }
    }
  });
}

/// Two layers of which a rank uses one.
struct Branches : nn::Module {
  explicit Branches(int chosen) : use(chosen) {}
  Variable forward(const Variable& x) override {
    return linear(x, layers[static_cast<std::size_t>(use)], Variable());
  }
  int use;
  std::vector<Variable> layers{register_parameter("first", test::wave({4, 6}, 1.0)),
                               register_parameter("second", test::wave({4, 6}, 2.0))};
};

TEST_P(Ddp, ParameterThatSomeRanksUseGetsTheirSum) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const Batch batch = make_batch(3, 0.5);
    const int used_twice = group->size() > 1 ? 1 : 0;
    for (const DdpOptions& options : bucket_limits()) {
      const auto model = std::make_shared<Branches>(group->rank() == 0 ? 0 : 1);
      DistributedDataParallel ddp(model, group, options);
      ddp.backward(mean_loss(ddp, batch), 1.0);

      for (const int branch : {0, 1}) {
        Branches alone(branch);
        mean_loss(alone, batch).backward();
        const auto index = static_cast<std::size_t>(branch);
        Tensor expected = alone.layers[index].grad();
        const int users = branch == 0 ? 1 : (group->size() - 1) * used_twice;
        if (users == 0) {
          EXPECT_FALSE(model->layers[index].grad().defined());
          continue;
        }
        auto values = expected.to_vector<double>();
        for (double& value : values) value *= users;
        expected = Tensor::from(values, expected.shape());
        EXPECT_LE(max_difference(model->layers[index].grad(), expected), 1e-14);
      }
    }
  });
}

TEST_P(Ddp, RanksWithoutSamplesContributeZeros) {
  const Batch batch = make_batch(1, 0.5);
  Mlp alone(1.0);
  mean_loss(alone, batch).backward();
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const DdpOptions& options : bucket_limits()) {
      const auto model = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, options);
      for (int step = 0; step < 2; ++step) {
        ddp.zero_grad();
        if (group->rank() == group->size() - 1) {
          ddp.backward(mean_loss(ddp, batch), 1.0);
        } else {
          ddp.backward({}, 0.0);
        }
        EXPECT_EQ(max_difference(model->W1.grad(), alone.W1.grad()), 0.0);
        EXPECT_EQ(max_difference(model->b2.grad(), alone.b2.grad()), 0.0);
      }
    }
  });
}

TEST_P(Ddp, ParametersStayBitEqualOverRanks) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(group->rank(), 5, DType::f32);
    DistributedDataParallel ddp(model, group, {.buckets = {100, 200}});
    optim::SGD sgd(model->named_parameters(), {.lr = 0.1, .momentum = 0.9});
    const std::string start = hash_of(ddp.state_dict());
    for (int step = 0; step < 10; ++step) {
      backward(ddp, make_batch(7, step, DType::f32));
      sgd.step();
    }
    EXPECT_NE(hash_of(ddp.state_dict()), start);
    EXPECT_TRUE(test::same_on_all_ranks(*group, hash_of(ddp.state_dict())));
    EXPECT_TRUE(test::same_on_all_ranks(*group, hash_of(sgd.state_dict())));
  });
}

TEST_P(Ddp, GivesTheNumbersOfTheLoopThatAveragesByHand) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const Batch batch = make_batch(11, 0.5);
    const Batch share = batch.share(group->rank(), group->size());
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group, {.buckets = {100, 200}});
    backward(ddp, batch);

    Mlp by_hand(1.0);
    const Variable loss = mean_loss(by_hand, share);
    if (loss.defined()) loss.backward(weight_of(share, batch));
    const auto expected = by_hand.named_parameters(), actual = model->named_parameters();
    for (std::size_t i = 0; i < actual.size(); ++i) {
      if (actual[i].name == "unused") continue;
      const Tensor sum = expected[i].variable.grad_buffer();
      if (!expected[i].variable.grad().defined()) sum.zero();
      group->all_reduce(sum, ReduceOp::sum).wait();
      EXPECT_LE(max_difference(actual[i].variable.grad(), sum), 1e-14) << actual[i].name;
    }
  });
}

TEST_P(Ddp, BackwardOfAWeightAddsToTheGradientsHeldBefore) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (const std::int64_t shards : {0, 1, 3}) {
      const auto model = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, {.shards = shards * group->size()});
      const auto add = [&](double phase) {
        ddp.for_each_shard([&](std::int64_t /*shard*/) {
          ddp.backward(mean_loss(ddp, make_batch(2, phase)), 1.0);
        });
      };
      add(0.5);
      const Tensor first = model->W1.grad().clone();
      ddp.zero_grad();
      EXPECT_FALSE(model->W1.grad().defined());
      add(0.9);
      const Tensor both = model->W1.grad().clone();
      add_scaled(first, 1.0, both);
      add(0.5);
      EXPECT_LE(max_difference(model->W1.grad(), both), 1e-14);
      ddp.for_each_shard([&](std::int64_t /*shard*/) { ddp.backward({}, 0.0); });
      EXPECT_LE(max_difference(model->W1.grad(), both), 1e-14) << "nothing was added";
    }
  });
}

TEST_P(Ddp, BackwardOfTheLossItselfStaysLocal) {
  const Batch batch = make_batch(5, 0.5);
  Mlp alone(1.0);
  mean_loss(alone, batch).backward();
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    // On one rank only: a collective here would not return.
    if (group->rank() != 0) return;
    mean_loss(*model, batch).backward();
    EXPECT_EQ(max_difference(model->W1.grad(), alone.W1.grad()), 0.0);
  });
}

TEST_P(Ddp, ModelOutlivesIt) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    { const DistributedDataParallel ddp(model, group); }
    mean_loss(*model, make_batch(5, 0.5)).backward();
    EXPECT_TRUE(model->W1.grad().defined());
  });
}

/// Constructs with `odd()` on the last rank and `usual()` on the others. Every rank must get the
/// same error, which names the last rank and `clue`, and the group must still work.
template <class Usual, class Odd>
void expect_mismatch(int ranks, const Usual& usual, const Odd& odd, const std::string& clue) {
  test::on_ranks(ranks, [&](const auto& group) {
    const int last = group->size() - 1;
    std::string message;
    try {
      const std::unique_ptr<DistributedDataParallel> ddp =
          group->rank() == last ? odd(group) : usual(group);
    } catch (const Error& error) {
      message = error.what();
    }
    if (last == 0) {
      EXPECT_EQ(message, "");  // no other rank to disagree with
      return;
    }
    EXPECT_NE(message.find("rank " + std::to_string(last)), std::string::npos) << message;
    EXPECT_NE(message.find(clue), std::string::npos) << message;
    EXPECT_TRUE(test::same_on_all_ranks(*group, message));
  });
}

template <class... Args>
auto wrapped_mlp(Args... args) {
  return [=](const std::shared_ptr<ProcessGroup>& group) {
    return std::make_unique<DistributedDataParallel>(std::make_shared<Mlp>(args...), group);
  };
}

struct Renamed : nn::Module {
  Variable forward(const Variable& x) override { return x; }
  Variable w = register_parameter("W_one", test::wave({5, 6}, 0.0));
};

TEST_P(Ddp, AnotherShapeIsTheSameErrorOnEveryRank) {
  expect_mismatch(GetParam(), wrapped_mlp(0.0), wrapped_mlp(0.0, 7), "'W1' f64[7, 6]");
}

TEST_P(Ddp, AnotherDtypeIsTheSameErrorOnEveryRank) {
  expect_mismatch(GetParam(), wrapped_mlp(0.0), wrapped_mlp(0.0, 5, DType::f32), "'W1' f32[5, 6]");
}

TEST_P(Ddp, AnotherNameIsTheSameErrorOnEveryRank) {
  const auto renamed = [](const std::shared_ptr<ProcessGroup>& group) {
    return std::make_unique<DistributedDataParallel>(std::make_shared<Renamed>(), group);
  };
  expect_mismatch(GetParam(), wrapped_mlp(0.0), renamed, "'W_one'");
}

TEST_P(Ddp, OtherBucketLimitsAreTheSameErrorOnEveryRank) {
  const auto tiny = [](const std::shared_ptr<ProcessGroup>& group) {
    return std::make_unique<DistributedDataParallel>(std::make_shared<Mlp>(0.0), group,
                                                     DdpOptions{.buckets = {1, 1}});
  };
  expect_mismatch(GetParam(), wrapped_mlp(0.0), tiny, "first_bucket_bytes = 1,");
}

TEST_P(Ddp, BucketLimitsBelowOneAreRefused) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(0.0);
    EXPECT_THROW(DistributedDataParallel(model, group, {.buckets = {0, 1}}), InputError);
    EXPECT_THROW(DistributedDataParallel(model, group, {.buckets = {1, 0}}), InputError);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Ddp, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
