#include <lockstep/parallel/shard_sum.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

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

/// The tree nodes that a rank's shards add up to, and its largest number of kept sums, without the
/// newest.
struct OwnNodes {
  std::vector<ShardRange> nodes;
  std::int64_t most_kept = 0;
};

OwnNodes nodes_of(const ShardTree& tree, ShardRange own) {
  ShardStack stack(tree);
  OwnNodes found;
  for (std::int64_t shard = own.first; shard < own.last; ++shard) {
    static_cast<void>(stack.push({shard, shard + 1}));
    const bool last = shard + 1 == own.last;
    found.most_kept = std::max(found.most_kept, stack.height() - (last ? 1 : 0));
  }
  found.nodes = stack.nodes();
  return found;
}

/// Pushes the sum of `node`, in row `row` of rows[n, elements], and makes the additions. The sums
/// on the stack are in the first rows, the topmost last.
void add_to_stack(ShardStack& stack, ShardRange node, const Tensor& rows, std::int64_t row) {
  const auto sum = [&](std::int64_t at) { return rows.slice(at, at + 1); };
  const int additions = stack.push(node);
  const std::int64_t top = stack.height() - 1;  // at most `row`
  if (additions == 0) {
    if (row != top) sum(top).copy_from(sum(row));
    return;
  }
  add_scaled(sum(row), 1.0, sum(top + additions - 1));
  for (int i = additions - 1; i > 0; --i) add_scaled(sum(top + i), 1.0, sum(top + i - 1));
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

int ShardStack::push(ShardRange node) {
  int additions = 0;
  while (!nodes_.empty() && tree_.are_halves(nodes_.back(), node)) {
    node.first = nodes_.back().first;
    nodes_.pop_back();
    ++additions;
  }
  nodes_.push_back(node);
  return additions;
}

ShardSum::ShardSum(const ProcessGroup& group, const ShardTree& tree, Tensor value)
    : tree_(tree),
      own_(tree.of_rank(group.rank(), group.size())),
      next_(own_.first),
      value_(std::move(value)),
      stack_(tree) {
  if (value_.dtype() != DType::f32 && value_.dtype() != DType::f64) {
    throw InputError(fmt::format("sums over shards are made in f32 and f64, not in {}",
                                 name_of(value_.dtype())));
  }
  const auto like_value = [&](const Shape& shape) {
    return Tensor::zeros(shape, value_.dtype(), value_.device());
  };
  std::size_t most_nodes = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    nodes_.push_back(nodes_of(tree, tree.of_rank(rank, group.size())).nodes);
    most_nodes = std::max(most_nodes, nodes_.back().size());
  }
  const std::int64_t most_kept = nodes_of(tree, own_).most_kept;
  for (std::int64_t i = 0; i < most_kept; ++i) kept_.push_back(like_value(value_.shape()));
  by_all_reduce_ = group.size() <= 2 && most_nodes == 1;  // a + b needs no fixed order
  if (by_all_reduce_) return;
  const auto ranks = static_cast<std::int64_t>(group.size());
  const std::int64_t part = (value_.numel() + ranks - 1) / ranks;
  const Shape parts{ranks, static_cast<std::int64_t>(most_nodes), part};
  sent_ = like_value(parts);
  received_ = like_value(parts);
  part_ = received_.slice(0, 1).reshape({parts[1], part}).slice(0, 1).reshape({part});
  gathered_ = like_value({ranks, part});
}

const Tensor& ShardSum::place_of(std::int64_t shard) const {
  ShardStack stack(tree_);
  int additions = 0;
  for (std::int64_t i = own_.first; i <= own_.first + shard; ++i)
    additions = stack.push({i, i + 1});
  const bool last = own_.first + shard + 1 == own_.last;
  return last || additions > 0 ? value_ : kept_[static_cast<std::size_t>(stack.height() - 1)];
}

void ShardSum::add_to_kept(const Tensor& value, bool last) {
  const std::int64_t shard = next_++;
  const int additions = stack_.push({shard, shard + 1});
  auto top = kept_.begin() + stack_.height() - 1;  // the newest node's sum, unless it is in value_
  if (last) {
    // Sums are written to `value`: a + b = b + a.
    for (int i = additions; i > 0; --i) add_scaled(top[i - 1], 1.0, value);
    return;
  }
  if (additions == 0) {
    if (value.data() != top->data()) top->copy_from(value);
    return;
  }
  add_scaled(value, 1.0, top[additions - 1]);
  for (int i = additions - 1; i > 0; --i) add_scaled(top[i], 1.0, top[i - 1]);
}

void ShardSum::keep(const Tensor& value) {
  if (next_ + 1 >= own_.last) throw Error("a rank's last shard is not kept, it starts the sum");
  add_to_kept(value, false);
}

void ShardSum::pack() {
  const std::int64_t ranks = sent_.shape()[0], nodes = sent_.shape()[1], part = sent_.shape()[2];
  const Tensor rows = sent_.reshape({ranks * nodes, part});
  for (std::int64_t node = 0; node < stack_.height(); ++node) {
    const bool newest = node + 1 == stack_.height();
    const Tensor& sum = newest ? value_ : kept_[static_cast<std::size_t>(node)];
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t begin = std::min(rank * part, sum.numel());
      const std::int64_t end = std::min(begin + part, sum.numel());
      const std::int64_t row = rank * nodes + node;
      rows.slice(row, row + 1)
          .reshape({part})
          .slice(0, end - begin)
          .copy_from(sum.slice(begin, end));
    }
  }
}

Work ShardSum::start(ProcessGroup& group) {
  if (next_ + 1 != own_.last) {
    throw Error(fmt::format("this rank sums shards [{}, {}), but {} is next", own_.first, own_.last,
                            next_));
  }
  add_to_kept(value_, true);
  if (by_all_reduce_) return group.all_reduce(value_, ReduceOp::sum);
  pack();
  return group.all_to_all(sent_, received_);
}

void ShardSum::sum_own_part() {
  const std::int64_t nodes = received_.shape()[1], part = received_.shape()[2];
  const Tensor rows = received_.reshape({received_.shape()[0] * nodes, part});
  stack_.clear();
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
    for (std::size_t node = 0; node < nodes_[rank].size(); ++node) {
      add_to_stack(stack_, nodes_[rank][node], rows,
                   static_cast<std::int64_t>(rank) * nodes + static_cast<std::int64_t>(node));
    }
  }
}

void ShardSum::finish(ProcessGroup& group) {
  if (!by_all_reduce_) {
    sum_own_part();
    group.all_gather(part_, gathered_).wait();
    value_.copy_from(gathered_.reshape({gathered_.numel()}).slice(0, value_.numel()));
  }
  forget();
}

void ShardSum::forget() noexcept {
  next_ = own_.first;
  stack_.clear();
}

}  // namespace lockstep
