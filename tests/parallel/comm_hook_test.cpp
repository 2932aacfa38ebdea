// How gradients travel: rounded to 16 bits, or as a user's own hook has it.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/kernels/elementwise.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::make_batch;
using test::mean_loss;
using test::Mlp;

class Hooks : public testing::TestWithParam<int> {};

/// What every rank's loss gives `parameter` alone, in rank order.
Tensor gradient_of_rank(const Batch& batch, int rank, int size, std::size_t parameter,
                        DType dtype) {
  const Batch share = batch.share(rank, size);
  const double weight = static_cast<double>(share.rows()) / static_cast<double>(batch.rows());
  Mlp alone(1.0, 5, dtype);
  if (share.rows() > 0) mean_loss(alone, share).backward(weight);
  const Variable variable = alone.parameters()[parameter];
  return share.rows() > 0 && variable.grad().defined() ? variable.grad()
                                                       : Tensor::zeros(variable.shape(), dtype);
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
            ddp.backward(mean_loss(ddp, share),
                         static_cast<double>(share.rows()) / static_cast<double>(batch.rows()));
          }
          const auto parameters = model->named_parameters();
          for (std::size_t p = 0; p < parameters.size(); ++p) {
            if (parameters[p].name == "unused") {
              EXPECT_FALSE(parameters[p].variable.grad().defined());
              continue;
            }
            const auto sum = Tensor::zeros(parameters[p].variable.shape());
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

/// Doubles the sum, and notes what it was called for.
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

TEST_P(Hooks, AUsersOwnDecidesWhatTheGradientsBecome) {
  const Batch batch = make_batch(12, 0.5);
  Mlp whole(1.0);
  mean_loss(whole, batch).backward();
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    const auto hook = std::make_shared<DoublingHook>();
    DistributedDataParallel ddp(model, group, {.buckets = {260, 520}}, hook);
    ASSERT_EQ(ddp.bucket_count(), 2U);
    const Batch share = batch.share(group->rank(), group->size());
    ddp.backward(mean_loss(ddp, share),
                 static_cast<double>(share.rows()) / static_cast<double>(batch.rows()));
    EXPECT_EQ(hook->calls, "prepare 2, start 0, start 1, finish 0, finish 1");
    Tensor expected = whole.W1.grad().clone();
    scale(expected, 2.0);
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
