#include <vector>

#include <gtest/gtest.h>

#include <lockstep/parallel/bucket_plan.hpp>

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

TEST(BucketPlan, NoParametersNeedNoBuckets) { EXPECT_TRUE(plan_buckets({}, {}).empty()); }

}  // namespace
}  // namespace lockstep
