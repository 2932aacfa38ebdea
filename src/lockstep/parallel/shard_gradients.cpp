#include <lockstep/parallel/shard_gradients.hpp>

#include <algorithm>
#include <functional>
#include <utility>

#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep {
namespace {

/// What lies in `memory` where `part` lies in `whole`.
Tensor same_place(const Tensor& part, const Tensor& whole, const Tensor& memory) {
  return Tensor::over(memory.storage(),
                      memory.offset_bytes() + part.offset_bytes() - whole.offset_bytes(),
                      part.shape(), part.dtype());
}

}  // namespace

ShardGradients::ShardGradients(std::span<const Bucket> buckets, std::vector<Tensor> memory)
    : memory_(std::move(memory)) {
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const Bucket& bucket = buckets[b];
    const auto in_memory = [&](const Tensor& part) {
      return same_place(part, bucket.gradients, memory_[b]);
    };
    yes_.push_back(in_memory(bucket.note(bucket.parameters.size())));
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
  for (const Tensor& yes : yes_) yes.zero();
  return memory_;
}

void ShardGradients::give_to_variables() const {
  for (const Place& place : places_) {
    if (place.present) place.variable.mark_grad_present();
  }
}

}  // namespace lockstep
