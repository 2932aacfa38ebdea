#include <lockstep/comm/node/node_map.hpp>

#include <algorithm>

namespace lockstep {

NodeMap::NodeMap(std::span<const int> first_ranks)
    : node_of_(first_ranks.size()), rank_at_(first_ranks.size()) {
  const auto index = [](int rank) { return static_cast<std::size_t>(rank); };
  const auto size = static_cast<int>(first_ranks.size());
  std::vector<int> ranks_on;  // by node
  for (int r = 0; r < size; ++r) {
    const int first = first_ranks[index(r)];
    if (first == r) ranks_on.push_back(0);
    node_of_[index(r)] =
        first == r ? static_cast<int>(ranks_on.size()) - 1 : node_of_[index(first)];
    ++ranks_on[index(node_of_[index(r)])];
  }
  for (const int ranks : ranks_on) {
    begin_.push_back(begin_.back() + ranks);
    most_ranks_ = std::max(most_ranks_, ranks);
  }
  std::vector<int> next = begin_;
  for (int r = 0; r < size; ++r) rank_at_[index(next[index(node_of_[index(r)])]++)] = r;
}

}  // namespace lockstep
