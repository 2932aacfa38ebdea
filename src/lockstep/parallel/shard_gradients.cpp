#include <lockstep/parallel/shard_gradients.hpp>

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep {
namespace {

/// The part of `memory` that corresponds to `part` in `whole`.
Tensor same_place(const Tensor& part, const Tensor& whole, const Tensor& memory) {
  return Tensor::over(memory.storage(),
                      memory.offset_bytes() + part.offset_bytes() - whole.offset_bytes(),
                      part.shape(), part.dtype());
}

}  // namespace

std::string ShardHook::name() const { return fmt::format("sum over {} shards", tree_.shards()); }

void ShardHook::prepare(ProcessGroup& group, std::span<const Bucket> buckets) {
  group_ = &group;
  for (const Bucket& bucket : buckets) {
    sums_.push_back(std::make_unique<ShardSum>(group, tree_, bucket.gradients));
  }
}

std::vector<Tensor> ShardHook::places_of(std::int64_t shard) const {
  std::vector<Tensor> places;
  for (const auto& sum : sums_) places.push_back(sum->place_of(shard));
  return places;
}

void ShardHook::keep(std::span<const Tensor> gradients) {
  for (std::size_t b = 0; b < sums_.size(); ++b) sums_[b]->keep(gradients[b]);
}

Work ShardHook::start(ProcessGroup& group, const Bucket& /*bucket*/, std::size_t index) {
  return sums_[index]->start(group);
}

void ShardHook::finish(const Bucket& /*bucket*/, std::size_t index) {
  sums_[index]->finish(*group_);
}

void ShardHook::forget() noexcept {
  for (const auto& sum : sums_) sum->forget();
}

ShardGradients::ShardGradients(std::span<const Bucket> buckets, std::vector<Tensor> memory)
    : memory_(std::move(memory)) {
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const Bucket& bucket = buckets[b];
    const auto in_memory = [&](const Tensor& part) {
      return same_place(part, bucket.gradients, memory_[b]);
    };
    answers_.push_back(in_memory(bucket.note(bucket.parameters.size())));
    for (std::size_t p = 0; p < bucket.parameters.size(); ++p) {
      const Variable& variable = bucket.parameters[p];
      places_.push_back({.variable = variable,
                         .gradient = in_memory(variable.grad_buffer()),
                         .use = in_memory(bucket.note(p))});
    }
  }
  std::ranges::sort(places_, std::less<>(),
                    [](const Place& place) { return place.variable.record(); });
}

const ShardGradients::Place* ShardGradients::find(const Variable& leaf) const {
  const auto place =
      std::ranges::lower_bound(places_, leaf.record(), std::less<>(),
                               [](const Place& one) { return one.variable.record(); });
  return place != places_.end() && place->variable.record() == leaf.record() ? &*place : nullptr;
}

GradTarget ShardGradients::target(const Variable& leaf) {
  auto& place = places_[static_cast<std::size_t>(find(leaf) - places_.data())];
  return {true, std::exchange(place.present, true), place.gradient};
}

void ShardGradients::forget() noexcept {
  for (Place& place : places_) place.present = false;
}

void ShardGradients::scale(double factor) const {
  if (std::ranges::none_of(places_, &Place::present)) return;
  for (const Tensor& memory : memory_) lockstep::scale(memory, factor);
}

const std::vector<Tensor>& ShardGradients::complete() {
  for (const Place& place : places_) {
    place.use.fill(place.present ? 1.0 : 0.0);
    if (!place.present) place.gradient.zero();
  }
  for (const Tensor& answer : answers_) answer.zero();
  return memory_;
}

}  // namespace lockstep
