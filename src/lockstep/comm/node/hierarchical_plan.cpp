#include <lockstep/comm/node/hierarchical_plan.hpp>

#include <algorithm>
#include <bit>

#include <lockstep/comm/node/reduce_ranks.hpp>
#include <lockstep/comm/node/shares.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

// Most bytes that a leader may receive or send for a reduction or broadcast over more than two
// nodes to take one exchange instead of two.
constexpr std::int64_t one_exchange_bytes = 32 << 10;

int slot_for(std::int64_t k) { return static_cast<int>(k % StagingBuffers::slots); }

/// Elements of each rank's block.
std::int64_t elements(const Operation& operation) {
  return operation.kind == Kind::reduce_scatter ? operation.output.numel()
                                                : operation.input.numel();
}

/// Elements of each rank's block that fit in the staging areas.
std::int64_t room(const NodeMap& map, const Operation& operation, bool by_shares) {
  const std::int64_t area = StagingBuffers::area_bytes / element_bytes(operation);
  switch (operation.kind) {
    case Kind::all_reduce:
    case Kind::reduce:
      return by_shares ? area / map.nodes() * map.nodes() : std::min(area, 2 * area / map.nodes());
    case Kind::all_gather:
      return 2 * area / map.size();
    case Kind::reduce_scatter:
      return area / (map.nodes() * map.most_ranks());
    default:
      return by_shares ? area / map.nodes() * map.nodes() : area;
  }
}

// A mean is scaled twice: each node's sum by a power of two, which keeps f16 from overflowing, and
// the result by the rest. The sums of the nodes are added in f32. The power is the smallest that
// the largest node needs: scaling to subnormal numbers loses bits.
double part_of_node(const NodeMap& map) {
  return 1.0 / std::bit_ceil(static_cast<unsigned>(map.most_ranks()));
}
double factor_before(const NodeMap& map, ReduceOp op) {
  return op == ReduceOp::avg ? part_of_node(map) : 1.0;
}
double factor_after(const NodeMap& map, ReduceOp op) {
  return op == ReduceOp::avg ? 1.0 / map.size() / part_of_node(map) : 1.0;
}

/// True if the ranks of the node can read each other's inputs directly.
bool inputs_are_in_reach(const ComputeNode& node, const Operation& operation) {
  return node.size() == 1 || all_in_buffers(node, operation, &SlotTable::Slot::input);
}

}  // namespace

bool HierarchicalPlan::fits(const NodeMap& map, const Operation& operation) noexcept {
  const Tensor& t = operation.input.defined() ? operation.input : operation.output;
  switch (operation.kind) {
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::broadcast:
    case Kind::all_gather:
    case Kind::reduce_scatter:
      return operation.input_counts.empty() && operation.output_counts.empty() &&
             t.device().type == DeviceType::host && room(map, operation, true) > 0;
    default:
      return false;
  }
}

HierarchicalPlan::HierarchicalPlan(StagingBuffers& staging, const Operation& operation,
                                   std::int64_t max_count) noexcept
    : staging_(staging),
      operation_(operation),
      element_(element_bytes(operation)),
      total_(elements(operation)) {
  const NodeMap& map = staging.map();
  if (operation.kind == Kind::all_reduce || operation.kind == Kind::reduce ||
      operation.kind == Kind::broadcast) {
    by_shares_ = map.nodes() > 2 && total_ * element_ * map.nodes() > one_exchange_bytes;
  }
  // One message carries the blocks of all ranks of a node.
  const std::int64_t allowed = std::max<std::int64_t>(1, max_count / (element_ * map.most_ranks()));
  most_ = std::min(room(map, operation, by_shares_), allowed);
}

void HierarchicalPlan::stage_input(std::int64_t k) const {
  const ComputeNode& node = staging_.node();
  const Block part = piece(k);
  std::byte* const area = staging_.input(node.rank(), slot_for(k));
  if (operation_.kind == Kind::reduce_scatter) {
    const std::int64_t bytes = part.count * element_;
    for (int place = 0; place < staging_.map().size(); ++place) {
      const std::int64_t begin = staging_.map().rank_at(place) * total_ + part.begin;
      copy_bytes(area + place * bytes, address_of(operation_.input, begin), bytes);
    }
    return;
  }
  if (!operation_.reduces() || inputs_are_in_reach(node, operation_)) return;
  // This rank reads its own share from the tensor, so it does not stage it.
  const Block own = share_of(part.count, element_, node.size(), node.rank());
  const auto copy = [&](std::int64_t begin, std::int64_t end) {
    copy_bytes(area + begin * element_, address_of(operation_.input, part.begin + begin),
               (end - begin) * element_);
  };
  copy(0, own.begin);
  copy(own.begin + own.count, part.count);
}

/// Reduces this rank's share of `count` elements over the ranks of the node.
template <class F>
void HierarchicalPlan::reduce_node(std::int64_t count, std::byte* target, const F& first_on) const {
  ComputeNode& node = staging_.node();
  const Block mine = share_of(count, element_, node.size(), node.rank());
  const auto sources =
      on_every_rank(node, [&](int r) { return first_on(r) + mine.begin * element_; });
  void* const to = target + mine.begin * element_;
  reduce_ranks(operation_.op, operation_.input.dtype(), sources, mine.count, {&to, 1},
               factor_before(staging_.map(), operation_.op));
}

/// Reduces `count` elements over all nodes; node k's begin at `first` + k * `stride` bytes.
void HierarchicalPlan::reduce_nodes(const std::byte* first, std::int64_t stride, std::int64_t count,
                                    void* target) const {
  const auto sources = staging_.on_every_node([&](int n) { return first + n * stride; });
  reduce_ranks(operation_.op, operation_.input.dtype(), sources, count, {&target, 1},
               factor_after(staging_.map(), operation_.op));
}

void HierarchicalPlan::combine(std::int64_t k) const {
  ComputeNode& node = staging_.node();
  const int slot = slot_for(k);
  const Block part = piece(k);
  const std::int64_t bytes = part.count * element_;
  std::byte* const outgoing = staging_.outgoing(slot);
  switch (operation_.kind) {
    case Kind::broadcast:
      if (node.group_rank(node.rank()) != operation_.root) return;
      return copy_bytes(outgoing, address_of(operation_.input, part.begin), bytes);
    case Kind::all_gather: {
      const int place = staging_.map().begin(staging_.own_node()) + node.rank();
      return copy_bytes(outgoing + place * bytes, address_of(operation_.input, part.begin), bytes);
    }
    case Kind::reduce_scatter:
      return reduce_node(part.count * staging_.map().size(), outgoing,
                         [&](int r) { return staging_.input(r, slot); });
    default: {
      const bool in_reach = inputs_are_in_reach(node, operation_);
      std::byte* const target = by_shares_ ? outgoing : outgoing + staging_.own_node() * bytes;
      return reduce_node(part.count, target, [&](int r) {
        if (r == node.rank()) return address_of(operation_.input, part.begin);
        if (!in_reach) return staging_.input(r, slot);
        return node.address(slot_of(node, operation_, r).input, r) + part.begin * element_;
      });
    }
  }
}

void HierarchicalPlan::sum_share(std::int64_t k) const {
  const int slot = slot_for(k);
  const std::int64_t count = share(piece(k)), begin = staging_.own_node() * count;
  const std::int64_t mine = std::min(count, piece(k).count - begin);
  if (mine <= 0) return;
  reduce_nodes(staging_.incoming(slot), count * element_, mine,
               staging_.outgoing(slot) + begin * element_);
}

void HierarchicalPlan::copy_result_out(std::int64_t k) const {
  const ComputeNode& node = staging_.node();
  const NodeMap& map = staging_.map();
  const int slot = slot_for(k), rank = node.group_rank(node.rank());
  const Block part = piece(k);
  const std::int64_t bytes = part.count * element_;
  const Tensor& output = operation_.output;
  switch (operation_.kind) {
    case Kind::broadcast:
      if (rank == operation_.root) return;
      return copy_bytes(address_of(output, part.begin), staging_.outgoing(slot), bytes);
    case Kind::all_gather:
      for (int place = 0; place < map.size(); ++place) {
        copy_bytes(address_of(output, map.rank_at(place) * total_ + part.begin),
                   staging_.outgoing(slot) + place * bytes, bytes);
      }
      return;
    case Kind::reduce_scatter:
      return reduce_nodes(staging_.incoming(slot) + node.rank() * bytes, node.size() * bytes,
                          part.count, address_of(output, part.begin));
    default:
      if (operation_.kind == Kind::reduce && rank != operation_.root) return;
      if (by_shares_)
        return copy_bytes(address_of(output, part.begin), staging_.outgoing(slot), bytes);
      return reduce_nodes(staging_.outgoing(slot), bytes, part.count,
                          address_of(output, part.begin));
  }
}

}  // namespace lockstep
