#include <lockstep/parallel/sharded_step.hpp>

#include <utility>

namespace lockstep {

ShardedStep::ShardedStep(std::shared_ptr<ProcessGroup> group, std::int64_t shards,
                         std::vector<Tensor> buffers)
    : group_(std::move(group)),
      tree_(shards),
      own_(tree_.of_rank(group_->rank(), group_->size())),
      next_(own_.first),
      hook_(std::make_shared<ShardHook>(tree_)),
      buffers_(*group_, tree_, std::move(buffers)) {}

void ShardedStep::keep() {
  hook_->keep();
  buffers_.keep();
  ++next_;
}

void ShardedStep::finish() {
  buffers_.finish(*group_);
  next_ = own_.first;
}

void ShardedStep::give_up() {
  hook_->forget();
  buffers_.forget();
  next_ = own_.first;
}

}  // namespace lockstep
