#include <lockstep/parallel/sharded_step.hpp>

#include <fmt/format.h>

#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/parallel/shard_exchange.hpp>

namespace lockstep {

ShardedStep::ShardedStep(std::shared_ptr<ProcessGroup> group, std::int64_t shards,
                         std::vector<Tensor> buffers)
    : group_(std::move(group)),
      tree_(shards),
      own_(tree_.of_rank(group_->rank(), group_->size())),
      next_(own_.first),
      hook_(std::make_shared<ShardHook>(tree_)),
      buffers_(*group_, tree_, std::move(buffers)) {}

void ShardedStep::keep_next() {
  Shard& shard = shard_[static_cast<std::size_t>(next_ - own_.first)];
  hook_->keep(shard.gradients.complete());
  shard.begin_anew();
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
  for (Shard& shard : shard_) shard.begin_anew();
  next_ = own_.first;
}

void ShardedStep::prepare(std::span<const Bucket> buckets, std::span<nn::BatchNorm* const> layers,
                          ShardTurns::Change change) {
  if (!layers.empty()) {
    turns_ = std::make_shared<ShardTurns>(
        own(), [this, change = std::move(change)](std::int64_t from, std::int64_t to) {
          buffers_.change(from, to);
          change(from, to);
        });
    const auto exchange = std::make_shared<ShardExchange>(*group_, tree_, turns_);
    for (nn::BatchNorm* layer : layers) layer->set_exchange(exchange);
  }
  if (own() == 1) return;
  for (std::int64_t shard = 0; shard < own(); ++shard) {
    std::vector<Tensor> memory = hook_->places_of(shard);
    if (turns_ && shard + 1 < own()) {  // all of them at a time
      for (Tensor& place : memory)
        place = Tensor::zeros(place.shape(), place.dtype(), place.device());
    }
    shard_.push_back({ShardGradients(buckets, std::move(memory))});
  }
}

void ShardedStep::take_turns(const std::function<void(std::int64_t)>& body) {
  buffers_.take_turns(own());
  turns_->run(body);
  expect_all_over();
  for (std::int64_t shard = 0; shard + 1 < own(); ++shard) {
    keep_next();
    buffers_.change(shard, shard + 1);
  }
}

void ShardedStep::give_last() {
  Shard& last = shard_.back();
  last.gradients.give_to_variables();
  last.begin_anew();
}

ShardedStep::Shard& ShardedStep::shard_at_hand() {
  return shard_[static_cast<std::size_t>(in_turns() ? turns_->at() : next_ - own_.first)];
}

ShardGradients& ShardedStep::gradients_at_hand() {
  Shard& shard = shard_at_hand();
  if (!shard.is_over) return shard.gradients;
  throw Error(
      "backward() was called again for one shard: within for_each_shard() all calls but the "
      "last of a shard are within no_sync()");
}

void ShardedStep::at_hand_is_over() {
  shard_at_hand().is_over = true;
  if (!in_turns()) keep_next();
}

void ShardedStep::expect_all_over() const {
  for (std::size_t shard = 0; shard < shard_.size(); ++shard) {
    if (shard_[shard].is_over) continue;
    throw Error(fmt::format(
        "the body of for_each_shard() has ended for shard {} without backward(), but within "
        "no_sync(); a shard without samples runs forward on a batch of 0 samples and calls "
        "backward(sum(output), 0.0)",
        own_.first + static_cast<std::int64_t>(shard)));
  }
}

}  // namespace lockstep
