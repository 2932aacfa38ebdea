#include <lockstep/parallel/post_local_sgd.hpp>

#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>

namespace lockstep {

PostLocalSgdHook::PostLocalSgdHook(std::shared_ptr<ProcessGroup> subgroup, std::int64_t start_step)
    : subgroup_(std::move(subgroup)), start_step_(start_step) {
  if (start_step >= 0) return;
  throw InputError(fmt::format("post-local SGD must start at step 0 or later, not {}", start_step));
}

std::string PostLocalSgdHook::name() const {
  return fmt::format("post_local_sgd from step {}", start_step_);
}

void PostLocalSgdHook::prepare(ProcessGroup& group, std::span<const Bucket> /*buckets*/) {
  local_factor_ = static_cast<double>(group.size()) / (subgroup_ ? subgroup_->size() : 1);
}

Work PostLocalSgdHook::start(ProcessGroup& group, const Bucket& bucket, std::size_t /*index*/) {
  if (!is_local()) return group.all_reduce(bucket.gradients, ReduceOp::sum);
  return subgroup_ ? subgroup_->all_reduce(bucket.gradients, ReduceOp::sum) : Work();
}

std::int64_t PostLocalSgdHook::bytes_sent(const Bucket& bucket, std::size_t index) const {
  return is_local() && !subgroup_ ? 0 : CommHook::bytes_sent(bucket, index);
}

}  // namespace lockstep
