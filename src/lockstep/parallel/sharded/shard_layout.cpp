#include <lockstep/parallel/sharded/shard_layout.hpp>

#include <algorithm>

namespace lockstep {
namespace {

std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

ShardLayout::ShardLayout(std::span<const std::int64_t> counts, int ranks, std::int64_t alignment)
    : counts_(counts.begin(), counts.end()), ranks_(ranks) {
  std::int64_t end = 0;
  for (const std::int64_t count : counts_) {
    const std::int64_t place = rounded_up(end, alignment);
    if (place > end) gaps_.push_back({end, place});
    places_.push_back(place);
    end = place + count;
  }
  run_ = rounded_up((end + ranks - 1) / ranks, alignment);
  if (elements() > end) gaps_.push_back({end, elements()});
}

ShardLayout::Piece ShardLayout::piece(std::size_t tensor, int rank) const {
  const std::int64_t run = rank * run_, first = places_[tensor], last = first + counts_[tensor];
  const std::int64_t begin = std::clamp(run, first, last);
  const std::int64_t end = std::clamp(run + run_, first, last);
  return {.begin = begin - first,
          .count = end - begin,
          .place = std::clamp<std::int64_t>(begin - run, 0, run_)};
}

}  // namespace lockstep
