#include <lockstep/parallel/shard_buffers.hpp>

#include <utility>

#include <lockstep/parallel/bucket.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep {

ShardBuffers::ShardBuffers(ProcessGroup& group, const ShardTree& tree, std::vector<Tensor> buffers)
    : buffers_(std::move(buffers)) {
  std::int64_t elements = 2;
  for (const Tensor& buffer : buffers_) elements += buffer.numel();
  sum_ = memory_to_reduce(group, {elements}, DType::f64, Device{});
  std::int64_t at = 2;
  for (const Tensor& buffer : buffers_) {
    before_.push_back(buffer.clone());
    places_.push_back(sum_.slice(at, at + buffer.numel()).reshape(buffer.shape()));
    at += buffer.numel();
  }
  over_shards_ = std::make_unique<ShardSum>(group, tree, sum_);
}

void ShardBuffers::forward_begins() {
  if (std::exchange(under_way_, true)) return;
  for (std::size_t i = 0; i < buffers_.size(); ++i) before_[i].copy_from(buffers_[i]);
}

void ShardBuffers::add_loss(double part) {
  has_samples_ = true;
  shard_loss_ += part;
}

void ShardBuffers::note_shard() {
  auto* numbers = static_cast<double*>(sum_.data());
  if (has_samples_) {
    numbers[0] = 1.0;
    numbers[1] = shard_loss_;
    for (std::size_t i = 0; i < buffers_.size(); ++i) convert(buffers_[i], places_[i]);
  } else {
    sum_.zero();
  }
  has_samples_ = false;
  shard_loss_ = 0.0;
}

void ShardBuffers::restore() {
  if (!under_way_) return;
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_from(before_[i]);
}

void ShardBuffers::keep() {
  note_shard();
  over_shards_->keep(sum_);
  restore();
}

void ShardBuffers::finish(ProcessGroup& group) {
  note_shard();
  over_shards_->start(group).wait();
  over_shards_->finish(group);
  auto* numbers = static_cast<double*>(sum_.data());
  const double shards = numbers[0];
  loss_ = numbers[1];
  under_way_ = false;
  if (shards == 0.0) return;
  for (std::int64_t i = 2; i < sum_.numel(); ++i) numbers[i] /= shards;
  for (std::size_t i = 0; i < buffers_.size(); ++i) convert(places_[i], buffers_[i]);
}

void ShardBuffers::take_turns(std::int64_t shards) {
  forward_begins();
  turns_.resize(static_cast<std::size_t>(shards));
  for (NotAtHand& shard : turns_) {
    shard.has_samples = false;
    shard.loss = 0.0;
    if (shard.buffers.empty()) {
      for (const Tensor& buffer : buffers_) shard.buffers.push_back(Tensor::empty_like(buffer));
    }
    for (std::size_t i = 0; i < buffers_.size(); ++i) shard.buffers[i].copy_from(before_[i]);
  }
}

void ShardBuffers::change(std::int64_t from, std::int64_t to) {
  NotAtHand &stands = turns_[static_cast<std::size_t>(from)],
            &goes_on = turns_[static_cast<std::size_t>(to)];
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    stands.buffers[i].copy_from(buffers_[i]);
    buffers_[i].copy_from(goes_on.buffers[i]);
  }
  stands.has_samples = std::exchange(has_samples_, goes_on.has_samples);
  stands.loss = std::exchange(shard_loss_, goes_on.loss);
}

void ShardBuffers::forget() {
  over_shards_->forget();
  has_samples_ = false;
  shard_loss_ = 0.0;
  restore();
  under_way_ = false;
}

}  // namespace lockstep
