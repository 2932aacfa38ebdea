#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// The nodes of a group (ranks that share memory), in the order of their first ranks, and each
/// rank's position when ranks are listed node after node ("place").
class NodeMap {
 public:
  NodeMap() = default;
  /// From the first rank of every rank's node.
  explicit NodeMap(std::span<const int> first_ranks);

  [[nodiscard]] int size() const noexcept { return static_cast<int>(rank_at_.size()); }
  [[nodiscard]] int nodes() const noexcept { return static_cast<int>(begin_.size()) - 1; }
  [[nodiscard]] int node_of(int rank) const noexcept { return at(node_of_, rank); }
  [[nodiscard]] int rank_at(int place) const noexcept { return at(rank_at_, place); }
  /// The place of a node's first rank; nodes() is taken too.
  [[nodiscard]] int begin(int node) const noexcept { return at(begin_, node); }
  [[nodiscard]] int ranks_on(int node) const noexcept { return begin(node + 1) - begin(node); }
  /// How many ranks the largest node has.
  [[nodiscard]] int most_ranks() const noexcept { return most_ranks_; }

 private:
  static int at(const std::vector<int>& numbers, int index) noexcept {
    return numbers[static_cast<std::size_t>(index)];
  }

  std::vector<int> node_of_;      // by rank
  std::vector<int> rank_at_;      // by place
  std::vector<int> begin_ = {0};  // by node
  int most_ranks_ = 0;
};

}  // namespace lockstep
