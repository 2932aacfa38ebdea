#include <lockstep/parallel/shard_tree.hpp>

#include <fmt/format.h>

#include <iterator>
#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

/// "1, 2, 3 or 6"
std::string divisors(std::int64_t n) {
  std::string text = "1";
  for (std::int64_t d = 2; d <= n; ++d) {
    if (n % d == 0) text += (d == n ? " or " : ", ") + std::to_string(d);
  }
  return text;
}

}  // namespace

ShardTree::ShardTree(std::int64_t shards) : shards_(shards) {
  if (shards < 1) {
    throw InputError(fmt::format("a batch is cut into at least 1 shard, not {}", shards));
  }
}

bool ShardTree::are_halves(ShardRange left, ShardRange right) const noexcept {
  if (left.last != right.first) return false;
  ShardRange node{0, shards_};
  while (true) {
    const std::int64_t middle = node.first + (node.last - node.first) / 2;
    if (right.last <= middle) {
      node.last = middle;
    } else if (left.first >= middle) {
      node.first = middle;
    } else {
      return left == ShardRange{node.first, middle} && right == ShardRange{middle, node.last};
    }
  }
}

ShardRange ShardTree::of_rank(int rank, int ranks) const {
  if (shards_ % ranks != 0) {
    throw InputError(
        fmt::format("{} ranks cannot share {} shards of a batch evenly (train.shards); {} can",
                    ranks, shards_, divisors(shards_)));
  }
  const std::int64_t each = shards_ / ranks;
  return {rank * each, (rank + 1) * each};
}

int ShardPile::push(ShardRange node) {
  int additions = 0;
  while (!nodes_.empty() && tree_.are_halves(nodes_.back(), node)) {
    node.first = nodes_.back().first;
    nodes_.pop_back();
    ++additions;
  }
  nodes_.push_back(node);
  return additions;
}

}  // namespace lockstep
