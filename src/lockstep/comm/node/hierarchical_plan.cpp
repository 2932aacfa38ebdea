#include <lockstep/comm/node/hierarchical_plan.hpp>

#include <algorithm>
#include <bit>

#include <lockstep/comm/node/reduce_ranks.hpp>
#include <lockstep/comm/node/shares.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

// Bytes that a leader may get, or send, for a reduction or a broadcast over more than two nodes to
// be one exchange, not two.
constexpr std::int64_t one_exchange_bytes = 32 << 10;

int slot_for(std::int64_t k) { return static_cast<int>(k % StagingBuffers::slots); }

/// Elements of every rank's block.
std::int64_t elements(const Operation& operation) {
  return operation.kind == Kind::reduce_scatter ? operation.output.numel()
                                                : operation.input.numel();
}

/// Elements of each rank's block that the areas have room for.
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

// A mean is scaled twice: what a node brings by a power of two, which keeps f16 from running over,
// and the result by the rest. The nodes' parts are added in f32. No greater power than the largest
// node needs: bits of what it makes subnormal are lost.
double part_of_node(const NodeMap& map) {
  return 1.0 / std::bit_ceil(static_cast<unsigned>(map.most_ranks()));
}
double factor_before(const NodeMap& map, ReduceOp op) {
  return op == ReduceOp::avg ? part_of_node(map) : 1.0;
}
double factor_after(const NodeMap& map, ReduceOp op) {
  return op == ReduceOp::avg ? 1.0 / map.size() / part_of_node(map) : 1.0;
}

/// Whether ranks of the node find the others' inputs where they are.
bool inputs_are_in_reach(const ComputeNode& node, const Operation& operation) {
  return node.size() == 1 || all_in_buffers(node, operation, &Board::Slot::input);
}

/// This rank's share of the reduction of `count` elements of all of the node's ranks.
template <class F>
void reduce_node(StagingBuffers& staging, const Operation& operation, std::int64_t count,
                 std::byte* target, const F& first_on) {
  ComputeNode& node = staging.node();
  const std::int64_t element = element_bytes(operation);
  const Block mine = share_of(count, element, node.size(), node.rank());
  const auto sources =
      on_every_rank(node, [&](int r) { return first_on(r) + mine.begin * element; });
  void* const to = target + mine.begin * element;
  reduce_ranks(operation.op, operation.input.dtype(), sources, mine.count, {&to, 1},
               factor_before(staging.map(), operation.op));
}

/// `count` elements of all nodes, the first ones at `first` and `stride` bytes apart.
void reduce_nodes(StagingBuffers& staging, const Operation& operation, const std::byte* first,
                  std::int64_t stride, std::int64_t count, void* target) {
  const auto sources = staging.on_every_node([&](int n) { return first + n * stride; });
  reduce_ranks(operation.op, operation.input.dtype(), sources, count, {&target, 1},
               factor_after(staging.map(), operation.op));
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

HierarchicalPlan::HierarchicalPlan(const NodeMap& map, const Operation& operation,
                                   std::int64_t max_count) noexcept
    : total_(elements(operation)), nodes_(map.nodes()) {
  const std::int64_t element = element_bytes(operation);
  if (operation.kind == Kind::all_reduce || operation.kind == Kind::reduce ||
      operation.kind == Kind::broadcast) {
    by_shares_ = nodes_ > 2 && total_ * element * nodes_ > one_exchange_bytes;
  }
  // A message carries the blocks of a node's ranks.
  const std::int64_t allowed = std::max<std::int64_t>(1, max_count / (element * map.most_ranks()));
  most_ = std::min(room(map, operation, by_shares_), allowed);
}

void HierarchicalPlan::stage_input(StagingBuffers& staging, const Operation& operation,
                                   std::int64_t k) const {
  const ComputeNode& node = staging.node();
  const Block part = piece(k);
  const std::int64_t bytes = part.count * element_bytes(operation);
  std::byte* const area = staging.input(node.rank(), slot_for(k));
  if (operation.kind == Kind::reduce_scatter) {
    for (int place = 0; place < staging.map().size(); ++place) {
      const std::int64_t begin = staging.map().rank_at(place) * total_ + part.begin;
      copy_bytes(area + place * bytes, address_of(operation.input, begin), bytes);
    }
    return;
  }
  const bool reduces = operation.kind == Kind::all_reduce || operation.kind == Kind::reduce;
  if (!reduces || inputs_are_in_reach(node, operation)) return;
  // What this rank combines itself, it reads from the tensor.
  const std::int64_t element = element_bytes(operation);
  const Block own = share_of(part.count, element, node.size(), node.rank());
  const auto copy = [&](std::int64_t begin, std::int64_t end) {
    copy_bytes(area + begin * element, address_of(operation.input, part.begin + begin),
               (end - begin) * element);
  };
  copy(0, own.begin);
  copy(own.begin + own.count, part.count);
}

void HierarchicalPlan::combine(StagingBuffers& staging, const Operation& operation,
                               std::int64_t k) const {
  ComputeNode& node = staging.node();
  const int slot = slot_for(k);
  const Block part = piece(k);
  const std::int64_t element = element_bytes(operation), bytes = part.count * element;
  std::byte* const outgoing = staging.outgoing(slot);
  switch (operation.kind) {
    case Kind::broadcast:
      if (node.group_rank(node.rank()) != operation.root) return;
      return copy_bytes(outgoing, address_of(operation.input, part.begin), bytes);
    case Kind::all_gather: {
      const int place = staging.map().begin(staging.own_node()) + node.rank();
      return copy_bytes(outgoing + place * bytes, address_of(operation.input, part.begin), bytes);
    }
    case Kind::reduce_scatter:
      return reduce_node(staging, operation, part.count * staging.map().size(), outgoing,
                         [&](int r) { return staging.input(r, slot); });
    default: {
      const bool in_reach = inputs_are_in_reach(node, operation);
      std::byte* const target = by_shares_ ? outgoing : outgoing + staging.own_node() * bytes;
      return reduce_node(staging, operation, part.count, target, [&](int r) {
        if (r == node.rank()) return address_of(operation.input, part.begin);
        if (!in_reach) return staging.input(r, slot);
        return node.address(slot_of(node, operation, r).input, r) + part.begin * element;
      });
    }
  }
}

void HierarchicalPlan::sum_share(StagingBuffers& staging, const Operation& operation,
                                 std::int64_t k) const {
  const int slot = slot_for(k);
  const std::int64_t count = share(piece(k)), begin = staging.own_node() * count;
  const std::int64_t mine = std::min(count, piece(k).count - begin);
  if (mine <= 0) return;
  const std::int64_t element = element_bytes(operation);
  reduce_nodes(staging, operation, staging.incoming(slot), count * element, mine,
               staging.outgoing(slot) + begin * element);
}

void HierarchicalPlan::copy_result_out(StagingBuffers& staging, const Operation& operation,
                                       std::int64_t k) const {
  const ComputeNode& node = staging.node();
  const NodeMap& map = staging.map();
  const int slot = slot_for(k), rank = node.group_rank(node.rank());
  const Block part = piece(k);
  const std::int64_t bytes = part.count * element_bytes(operation);
  const Tensor& output = operation.output;
  switch (operation.kind) {
    case Kind::broadcast:
      if (rank == operation.root) return;
      return copy_bytes(address_of(output, part.begin), staging.outgoing(slot), bytes);
    case Kind::all_gather:
      for (int place = 0; place < map.size(); ++place) {
        copy_bytes(address_of(output, map.rank_at(place) * total_ + part.begin),
                   staging.outgoing(slot) + place * bytes, bytes);
      }
      return;
    case Kind::reduce_scatter:
      return reduce_nodes(staging, operation, staging.incoming(slot) + node.rank() * bytes,
                          node.size() * bytes, part.count, address_of(output, part.begin));
    default:
      if (operation.kind == Kind::reduce && rank != operation.root) return;
      if (by_shares_)
        return copy_bytes(address_of(output, part.begin), staging.outgoing(slot), bytes);
      return reduce_nodes(staging, operation, staging.outgoing(slot), bytes, part.count,
                          address_of(output, part.begin));
  }
}

}  // namespace lockstep
