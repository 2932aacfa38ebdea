#include <lockstep/parallel/shard_hook.hpp>

#include <fmt/format.h>

namespace lockstep {

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

}  // namespace lockstep
