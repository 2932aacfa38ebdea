#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/parallel/bucket.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "small_models.hpp"

namespace lockstep {
namespace {

std::vector<Tensor> floats(std::initializer_list<std::int64_t> counts) {
  std::vector<Tensor> tensors;
  for (const auto count : counts) tensors.push_back(Tensor::empty({count}));
  return tensors;
}

/// Parameters of each bucket, in order.
std::vector<std::vector<std::size_t>> members(const std::vector<BucketPlan>& plan) {
  std::vector<std::vector<std::size_t>> all;
  for (const auto& bucket : plan) {
    all.emplace_back();
    for (const auto& slice : bucket.slices) all.back().push_back(slice.parameter);
  }
  return all;
}

using Members = std::vector<std::vector<std::size_t>>;

TEST(BucketPlan, OneBucketHoldsASmallModelInReverseOrder) {
  EXPECT_EQ(members(plan_buckets(floats({100, 10, 1}), {})), (Members{{2, 1, 0}}));
}

TEST(BucketPlan, FirstBucketHasItsOwnLimit) {
  const auto tensors = floats({16, 16, 16, 16, 16});  // 64 bytes each
  EXPECT_EQ(members(plan_buckets(tensors, {.first_bucket_bytes = 128, .bucket_bytes = 192})),
            (Members{{4, 3}, {2, 1, 0}}));
  EXPECT_EQ(members(plan_buckets(tensors, {.first_bucket_bytes = 127, .bucket_bytes = 128})),
            (Members{{4}, {3, 2}, {1, 0}}));
}

TEST(BucketPlan, ParameterLargerThanTheLimitHasItsOwnBucket) {
  EXPECT_EQ(
      members(plan_buckets(floats({1, 1000, 1}), {.first_bucket_bytes = 64, .bucket_bytes = 128})),
      (Members{{2}, {1}, {0}}));
  EXPECT_EQ(members(plan_buckets(floats({4, 5, 6}), {.first_bucket_bytes = 1, .bucket_bytes = 1})),
            (Members{{2}, {1}, {0}}));
}

TEST(BucketPlan, BucketsHoldOneDtype) {
  const std::vector<Tensor> tensors{Tensor::empty({2}), Tensor::empty({2}, DType::f64),
                                    Tensor::empty({2}, DType::f64)};
  const auto plan = plan_buckets(tensors, {});
  EXPECT_EQ(members(plan), (Members{{2, 1}, {0}}));
  EXPECT_EQ(plan[0].dtype, DType::f64);
  EXPECT_EQ(plan[1].dtype, DType::f32);
}

TEST(BucketPlan, SlicesAreAlignedAndDoNotOverlap) {
  const auto tensors = floats({1, 17, 0, 33});
  const auto plan = plan_buckets(tensors, {});
  ASSERT_EQ(plan.size(), 1U);
  std::size_t end = 0;
  for (const auto& [parameter, offset] : plan[0].slices) {
    EXPECT_EQ(offset % 64, 0U);
    EXPECT_GE(offset, end);
    end = offset + tensors[parameter].bytes();
  }
  EXPECT_LE(end, plan[0].bytes);
}

TEST(BucketPlan, OfTenThousandParametersIsThereWithinTenMilliseconds) {
  const std::vector<Tensor> tensors(10'000, Tensor::empty({64, 64}));
  double best = 1.0;
  std::size_t slices = 0;
  for (int attempt = 0; attempt < 50 && best > 0.010; ++attempt) {
    const auto start = Clock::now();
    const auto plan = plan_buckets(tensors, {});
    best = std::min(best, seconds_since(start));
    slices = 0;
    for (const BucketPlan& bucket : plan) slices += bucket.slices.size();
  }
  EXPECT_EQ(slices, 10'000U);
  EXPECT_LE(best, 0.010);
}

TEST(BucketPlan, OneRankOf4096SendsEachBucketOnceAStep) {
  const auto model = std::make_shared<test::Mlp>(1.0);
  const auto group = std::make_shared<FakeGroup>(4096, 4095);
  DistributedDataParallel ddp(model, group, {.buckets = {1, 1}});
  const auto of_a_step = [&] {
    const auto before = group->traffic();
    ddp.backward(test::mean_loss(ddp, test::make_batch(3, 0.5)), 1.0 / 4096);
    return FakeGroup::Traffic{group->traffic().operations - before.operations,
                              group->traffic().bytes - before.bytes};
  };
  of_a_step();  // which also agrees on the order of buckets
  const auto replaced = ddp.stats().traffic.replaced;
  const auto traffic = of_a_step();
  EXPECT_EQ(ddp.stats().buckets, 5U);
  EXPECT_EQ(traffic.operations, 5);
  EXPECT_EQ(traffic.bytes, replaced);
}

TEST(BucketPlan, NoParametersNeedNoBuckets) { EXPECT_TRUE(plan_buckets({}, {}).empty()); }

// The memory in use equals the peak, so memory for another tensor would show.
TEST(Bucket, ScalesGradientsOf16BitsByOneRoundingAndWithoutFurtherMemory) {
  FakeGroup group(1, 0);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Variable parameter(Tensor::zeros({40'001}, dtype), true);
    const auto buckets = lay_out_in_buckets(std::vector{parameter}, {}, group);
    const Tensor gradient = parameter.grad_buffer();
    const Tensor start = test::wave({40'001}, 0.3, DType::f32).to(dtype);
    gradient.copy_from(start);
    parameter.mark_grad_present();
    const MemoryStats before = memory_stats();
    const Tensor rest = Tensor::empty({before.peak_in_use - before.in_use + 64}, DType::u8);
    const std::int64_t most = memory_stats().peak_in_use;
    ASSERT_EQ(memory_stats().in_use, most);
    scale_gradients(buckets.at(0), 1.0 / 3.0);
    EXPECT_EQ(memory_stats().peak_in_use, most);
    const auto found = gradient.to(DType::f32).to_vector<float>();
    auto expected = start.to(DType::f32).to_vector<float>();
    for (float& value : expected) value *= static_cast<float>(1.0 / 3.0);
    EXPECT_EQ(found, Tensor::from(expected, {40'001}).to(dtype).to(DType::f32).to_vector<float>());
  }
}

}  // namespace
}  // namespace lockstep
