// Communication hooks: gradients rounded to 16 bits, and a user's own hook.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/parallel/bucket.hpp>
#include <lockstep/parallel/comm_hook.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::make_batch;
using test::mean_loss;
using test::Mlp;

class Hooks : public testing::TestWithParam<int> {};

/// The gradient of `parameter` from every rank's loss alone, in rank order.
Tensor gradient_of_rank(const Batch& batch, int rank, int size, std::size_t parameter,
                        DType dtype) {
  const Batch share = batch.share(rank, size);
  const double weight = static_cast<double>(share.rows()) / static_cast<double>(batch.rows());
  Mlp alone(1.0, 5, dtype);
  if (share.rows() > 0) mean_loss(alone, share).backward(weight);
  const Variable variable = alone.parameters()[parameter];
  return share.rows() > 0 && variable.grad().defined()
             ? variable.grad()
             : Tensor::zeros(variable.shape(), dtype, test::asked_for_device());
}

TEST_P(Hooks, CompressedGradientsAreTheRoundedSumOfTheRanksRoundedOnes) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Batch batch = make_batch(11, 0.5, dtype);
      for (const auto& [kind, wire] : {std::pair{CommHookKind::fp16_compress, DType::f16},
                                       std::pair{CommHookKind::bf16_compress, DType::bf16}}) {
        for (const BucketOptions& buckets : {BucketOptions{}, BucketOptions{1, 1}}) {
          const auto model = std::make_shared<Mlp>(1.0, 5, dtype);
          DistributedDataParallel ddp(model, group, {.buckets = buckets, .comm_hook = kind});
          for (int step = 0; step < 2; ++step) {
            const Batch share = batch.share(group->rank(), group->size());
            ddp.zero_grad();
            ddp.backward(mean_loss(ddp, share),
                         static_cast<double>(share.rows()) / static_cast<double>(batch.rows()));
          }
          const auto parameters = model->named_parameters();
          for (std::size_t p = 0; p < parameters.size(); ++p) {
            if (parameters[p].name == "unused") {
              EXPECT_FALSE(parameters[p].variable.grad().defined());
              continue;
            }
            const auto sum =
                Tensor::zeros(parameters[p].variable.shape(), DType::f32, test::asked_for_device());
            for (int r = 0; r < group->size(); ++r) {
              const Tensor rounded =
                  gradient_of_rank(batch, r, group->size(), p, dtype).to(wire).to(DType::f32);
              add_scaled(rounded, 1.0, sum);
            }
            EXPECT_EQ(parameters[p].variable.grad().to(DType::f64).template to_vector<double>(),
                      sum.to(wire).to(DType::f64).template to_vector<double>())
                << parameters[p].name << " by " << name_of(wire);
          }
        }
      }
    }
  });
}

/// Doubles the sum, and records its calls.
class DoublingHook : public CommHook {
 public:
  [[nodiscard]] std::string name() const override { return "doubling"; }
  void prepare(ProcessGroup& /*group*/, std::span<const Bucket> buckets) override {
    calls += "prepare " + std::to_string(buckets.size());
  }
  [[nodiscard]] Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override {
    calls += ", start " + std::to_string(index);
    return group.all_reduce(bucket.gradients, ReduceOp::sum);
  }
  void finish(const Bucket& bucket, std::size_t index) override {
    calls += ", finish " + std::to_string(index);
    scale(bucket.gradients, 2.0);
  }
  std::string calls;
};

TEST_P(Hooks, AUsersHookDeterminesTheGradients) {
  const Batch batch = make_batch(12, 0.5);
  Mlp whole(1.0);
  mean_loss(whole, batch).backward();
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    const auto hook = std::make_shared<DoublingHook>();
    DistributedDataParallel ddp(model, group, {.buckets = {260, 520}}, hook);
    ASSERT_EQ(ddp.stats().buckets, 2U);
    const Batch share = batch.share(group->rank(), group->size());
    ddp.backward(mean_loss(ddp, share),
                 static_cast<double>(share.rows()) / static_cast<double>(batch.rows()));
    EXPECT_EQ(hook->calls, "prepare 2, start 0, start 1, finish 0, finish 1");
    Tensor expected = whole.W1.grad().clone();
    scale(expected, 2.0);
    EXPECT_LT(test::max_difference(model->W1.grad(), expected), 1e-14);
  });
}

// W1 [5, 6], W2 [4, 5] and one-dimensional parameters, 12 numbers, each parameter in a bucket of
// its own with its count; gradients start at multiples of 64 bytes. PowerSGD reduces W1 to 11
// numbers.
TEST_P(Hooks, BytesSentStandBesideThoseOfAllReduce) {
  const Batch batch = make_batch(11, 0.5);
  test::on_ranks(GetParam(), [&](const auto& group) {
    const std::int64_t whole = (3 * 8 + 24 + 32 + 5 + 5) * 8;  // gradients, notes
    for (const auto& [kind, sent] : {std::pair{CommHookKind::all_reduce, whole},
                                     std::pair{CommHookKind::fp16_compress, whole / 4},
                                     std::pair{CommHookKind::bf16_compress, whole / 4},
                                     std::pair{CommHookKind::power_sgd, whole - (32 - 11) * 8}}) {
      DistributedDataParallel ddp(std::make_shared<Mlp>(1.0), group,
                                  {.buckets = {1, 1},
                                   .comm_hook = kind,
                                   .power_sgd = {.start_step = 2, .min_compression_rate = 2.5}});
      const Batch share = batch.share(group->rank(), group->size());
      const auto step = [&] {
        const HookTraffic before = ddp.stats().traffic;
        ddp.zero_grad();
        ddp.backward(mean_loss(ddp, share), 1.0);
        const HookTraffic after = ddp.stats().traffic;
        EXPECT_EQ(after.replaced - before.replaced, whole);
        return after.sent - before.sent;
      };
      for (int before_start = 0; before_start < 2; ++before_start) {
        EXPECT_EQ(step(), kind == CommHookKind::power_sgd ? whole : sent);
      }
      EXPECT_EQ(step(), sent) << ddp.comm_hook().name();
      const auto local = ddp.no_sync();
      const HookTraffic before = ddp.stats().traffic;
      ddp.zero_grad();
      ddp.backward(mean_loss(ddp, share), 1.0);
      EXPECT_EQ(ddp.stats().traffic.sent, before.sent);
    }
    DistributedDataParallel users(std::make_shared<Mlp>(1.0), group, {},
                                  std::make_shared<DoublingHook>());
    users.backward({}, 0.0);
    EXPECT_GT(users.stats().traffic.sent, 0);
    EXPECT_EQ(users.stats().traffic.sent, users.stats().traffic.replaced)
        << "unless it says otherwise";
  });
}

/// Three collectives per bucket.
class RoundsHook : public CommHook {
 public:
  [[nodiscard]] std::string name() const override { return "rounds"; }
  [[nodiscard]] Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override {
    calls += " " + std::to_string(index) + ".0";
    return group.all_reduce(bucket.gradients, ReduceOp::sum);
  }
  [[nodiscard]] int rounds() const override { return 3; }
  [[nodiscard]] Work next_round(ProcessGroup& group, const Bucket& bucket, std::size_t index,
                                int round) override {
    calls += " " + std::to_string(index) + "." + std::to_string(round);
    return group.all_reduce(bucket.gradients, ReduceOp::sum);
  }
  void finish(const Bucket& bucket, std::size_t index) override {
    calls += " " + std::to_string(index);
    scale(bucket.gradients, 1.0 / 16);
  }
  std::string calls;
};

// Sums of sums over n ranks are n^2 times the first.
TEST_P(Hooks, RoundsFollowEachOtherBucketByBucket) {
  const Batch batch = make_batch(12, 0.5);
  Mlp whole(1.0);
  mean_loss(whole, batch).backward();
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    const auto hook = std::make_shared<RoundsHook>();
    DistributedDataParallel ddp(model, group, {.buckets = {260, 520}}, hook);
    const Batch share = batch.share(group->rank(), group->size());
    ddp.backward(mean_loss(ddp, share),
                 static_cast<double>(share.rows()) / static_cast<double>(batch.rows()));
    EXPECT_EQ(hook->calls, " 0.0 1.0 0.1 1.1 0.2 1.2 0 1");
    const int n = group->size();
    Tensor expected = whole.W1.grad().clone();
    scale(expected, n * n / 16.0);
    EXPECT_LT(test::max_difference(model->W1.grad(), expected), 1e-14);
  });
}

TEST_P(Hooks, ThatDifferBetweenRanksAreNamed) {
  test::on_ranks(GetParam(), [](const auto& group) {
    if (group->size() == 1) return;
    const auto kind = group->rank() == 1 ? CommHookKind::bf16_compress : CommHookKind::all_reduce;
    const std::string message = test::message_of<Error>(
        [&] { DistributedDataParallel(std::make_shared<Mlp>(1.0), group, {.comm_hook = kind}); });
    EXPECT_NE(message.find("communication hook bf16_compress"), std::string::npos) << message;
  });
}

TEST(CompressHook, TakesSixteenBitFloatsOnly) {
  EXPECT_THROW(CompressHook{DType::f32}, InputError);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Hooks, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
