#include <lockstep/data/batch_source.hpp>

#include <numeric>

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

}  // namespace lockstep
