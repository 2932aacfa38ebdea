#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// How gradients are gathered into buckets.
struct BucketOptions {
  /// Limit of the first bucket: small, so that communication starts early in backward.
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  /// Limit of the others: large, so that each all-reduce is efficient.
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
};

/// Flat memory for the gradients of some parameters.
struct BucketPlan {
  /// Place of one parameter's gradient.
  struct Slice {
    std::size_t parameter;     ///< index into the argument of plan_buckets
    std::size_t offset_bytes;  ///< in the bucket; a multiple of 64, for vector loads
  };
  DType dtype = DType::f32;
  std::size_t bytes = 0;  ///< including gaps between and after slices
  std::vector<Slice> slices;
};

/// Assigns each parameter to a bucket, in reverse order, because backward finishes the last layer's
/// gradients first. A bucket is closed before a parameter that would exceed its limit or has
/// another dtype; a parameter larger than the limit has a bucket of its own. A pure function of
/// shapes, dtypes and options, so all ranks get the same plan.
[[nodiscard]] std::vector<BucketPlan> plan_buckets(std::span<const Tensor> parameters,
                                                   const BucketOptions& options);

}  // namespace lockstep
