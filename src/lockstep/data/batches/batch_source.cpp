#include <lockstep/data/batches/batch_source.hpp>

#include <algorithm>
#include <numeric>
#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep {

std::span<const std::int64_t> TrainBatches::indices(std::int64_t step) {
  const Range mine = plan_.share(step, rank_).positions;
  return order_->indices().subspan(static_cast<std::size_t>(mine.begin),
                                   static_cast<std::size_t>(mine.size()));
}

EvalBatches::EvalBatches(const EvalPlan& plan, int rank)
    : plan_(plan), rank_(rank), indices_(static_cast<std::size_t>(largest_batch())) {}

std::int64_t EvalBatches::largest_batch() const {
  return steps() == 0 ? 0 : plan_.batch(plan_.batch_of(rank_, 0)).size();
}

std::span<const std::int64_t> EvalBatches::indices(std::int64_t step) {
  const Range range = plan_.batch(plan_.batch_of(rank_, step));
  const auto mine = std::span(indices_).first(static_cast<std::size_t>(range.size()));
  std::iota(mine.begin(), mine.end(), range.begin);
  return mine;
}

SampledBatches::SampledBatches(DistributedSampler sampler, std::int64_t batch_size, bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  if (batch_size >= 1) return;
  throw InputError("SampledBatches: a batch has 1 sample or more, not " +
                   std::to_string(batch_size));
}

std::int64_t SampledBatches::steps() const {
  const std::int64_t samples = sampler_.num_samples();
  return drop_last_ ? samples / batch_size_ : (samples + batch_size_ - 1) / batch_size_;
}

std::int64_t SampledBatches::largest_batch() const {
  return steps() == 0 ? 0 : std::min(batch_size_, sampler_.num_samples());
}

std::span<const std::int64_t> SampledBatches::indices(std::int64_t step) {
  const std::int64_t begin = step * batch_size_;
  const std::int64_t count = std::min(batch_size_, sampler_.num_samples() - begin);
  return sampler_.indices().subspan(static_cast<std::size_t>(begin),
                                    static_cast<std::size_t>(count));
}

}  // namespace lockstep
