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

void ShardedStep::synchronise(std::span<nn::BatchNorm* const> layers,
                              std::span<const Bucket> buckets, ShardTurns::Change change) {
  turns_ = std::make_shared<ShardTurns>(
      own(), [this, change = std::move(change)](std::int64_t from, std::int64_t to) {
        buffers_.change(from, to);
        change(from, to);
      });
  const auto exchange = std::make_shared<ShardExchange>(*group_, tree_, turns_);
  for (nn::BatchNorm* layer : layers) layer->set_exchange(exchange);
  if (own() == 1) return;
  for (std::int64_t shard = 0; shard < own(); ++shard) {
    std::vector<Tensor> memory;
    for (const Bucket& bucket : buckets) {
      const Tensor& gradients = bucket.gradients;
      const bool is_last = shard + 1 == own();
      memory.push_back(
          is_last ? gradients
                  : Tensor::zeros(gradients.shape(), gradients.dtype(), gradients.device()));
    }
    turn_.push_back({ShardGradients(buckets, std::move(memory))});
  }
}

void ShardedStep::take_turns(const std::function<void(std::int64_t)>& body) {
  for (Turn& turn : turn_) {
    turn.gradients.forget();
    turn.is_over = false;
  }
  buffers_.take_turns(own());
  turns_->run(body);
  expect_all_over();
  for (std::int64_t shard = 0; shard + 1 < own(); ++shard) {
    hook_->keep(turn_[static_cast<std::size_t>(shard)].gradients.complete());
    buffers_.keep();
    buffers_.change(shard, shard + 1);
    ++next_;
  }
  turn_.back().gradients.give_to_variables();
}

void ShardedStep::backward(const Variable& loss, double weight, bool is_last) {
  Turn& turn = turn_[static_cast<std::size_t>(turns_->at())];
  if (turn.is_over) {
    throw Error(
        "backward() was called again for one shard: within for_each_shard() all calls but the "
        "last of a shard are within no_sync()");
  }
  const Tensor seed = Tensor::empty_like(loss.data());
  seed.fill(weight);
  lockstep::backward({&loss, 1}, {&seed, 1}, {.sink = &turn.gradients});
  turn.is_over = is_last;
}

void ShardedStep::expect_all_over() const {
  for (std::size_t shard = 0; shard < turn_.size(); ++shard) {
    if (turn_[shard].is_over) continue;
    throw Error(fmt::format(
        "the body of for_each_shard() has ended for shard {} without backward(), but within "
        "no_sync(); a shard without samples runs forward on a batch of 0 samples and calls "
        "backward(sum(output), 0.0)",
        own_.first + static_cast<std::int64_t>(shard)));
  }
}

}  // namespace lockstep
