#include <lockstep/parallel/bucket_plan.hpp>

namespace lockstep {

std::vector<BucketPlan> plan_buckets(std::span<const Tensor> parameters,
                                     const BucketOptions& options) {
  std::vector<BucketPlan> plan;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const Tensor& parameter = parameters[i];
    const auto limit = static_cast<std::size_t>(plan.size() <= 1 ? options.first_bucket_bytes
                                                                 : options.bucket_bytes);
    const std::size_t bytes = Storage::padded(parameter.bytes());
    if (plan.empty() || plan.back().dtype != parameter.dtype() ||
        plan.back().bytes + bytes > limit) {
      plan.emplace_back().dtype = parameter.dtype();
    }
    BucketPlan& bucket = plan.back();
    bucket.slices.push_back({.parameter = i, .offset_bytes = bucket.bytes});
    bucket.bytes += bytes;
  }
  return plan;
}

}  // namespace lockstep
