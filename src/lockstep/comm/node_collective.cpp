#include <lockstep/comm/node_collective.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

#include <lockstep/comm/reduce_ranks.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

// Bytes of a share that are reduced before other operations get their turn: about 0.1 ms.
constexpr std::int64_t turn_bytes = 1 << 20;

std::int64_t element_of(const Operation& operation) {
  return static_cast<std::int64_t>(size_of(operation.input.dtype()));
}

void copy_bytes(void* target, const void* source, std::int64_t bytes) {
  if (bytes > 0 && target != source) std::memcpy(target, source, static_cast<std::size_t>(bytes));
}

/// The addresses of something that each rank of the node has; this thread's until its next call.
template <class F>
std::vector<const void*>& sources_of(const NodeGroup& node, const F& address_on) {
  thread_local std::vector<const void*> sources;
  sources.clear();
  for (int r = 0; r < node.size(); ++r) sources.push_back(address_on(r));
  return sources;
}

/// Whole cache lines of `numel` elements for each rank, so that no two write to the same one.
Block share_of(std::int64_t numel, std::int64_t element, int size, int rank) {
  const std::int64_t line = 64 / element, lines = (numel + line - 1) / line;
  const auto begin = [&](int r) { return std::min(numel, lines * r / size * line); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

const Board::Slot& slot(const NodeGroup& node, const Operation& operation, int rank) {
  return node.board().slot(rank, operation.sequence);
}

/// Every target = the reduction of `count` elements of every rank, `begin` bytes into where
/// input_of and output_of say; of the first `targets` ranks' outputs.
template <class In, class Out>
void reduce_at(const NodeGroup& node, ReduceOp op, DType dtype, std::int64_t begin,
               std::int64_t count, int targets, const In& input_of, const Out& output_of) {
  thread_local std::vector<void*> outputs;
  outputs.clear();
  for (int r = 0; r < targets; ++r) outputs.push_back(node.address(output_of(r), r) + begin);
  const auto& inputs =
      sources_of(node, [&](int r) { return node.address(input_of(r), r) + begin; });
  reduce_ranks(op, dtype, inputs, count, outputs);
}

/// A turn of this rank's share of the inputs' reduction, into the outputs of the first `targets` of
/// the node's ranks.
std::int64_t reduce_share(const NodeGroup& node, const Operation& operation, ReduceOp op,
                          int targets, std::int64_t cursor) {
  const std::int64_t element = element_of(operation);
  const Block share = share_of(operation.input.numel(), element, node.size(), node.rank());
  const std::int64_t count = std::min(share.count - cursor, turn_bytes / element);
  reduce_at(
      node, op, operation.input.dtype(), (share.begin + cursor) * element, count, targets,
      [&](int r) { return slot(node, operation, r).input; },
      [&](int r) { return slot(node, operation, r).output; });
  return cursor + count < share.count ? cursor + count : -1;
}

}  // namespace

void write_call(NodeGroup& node, const Operation& operation, Contract contract) {
  Board::Slot& mine = node.board().mine(operation.sequence);
  mine.fingerprint = fingerprint(operation, contract == Contract::full);
  mine.call = record_of(operation);
  mine.input = operation.input.defined() ? node.place_of(operation.input) : SharedPlace{};
  mine.output = operation.output.defined() ? node.place_of(operation.output) : SharedPlace{};
  if (goes_in_slots(operation) && operation.input.defined()) {
    copy_bytes(mine.payload, operation.input.data(),
               static_cast<std::int64_t>(operation.input.bytes()));
  }
}

bool goes_in_slots(const Operation& operation) noexcept {
  const Tensor& t = operation.input.defined() ? operation.input : operation.output;
  const bool small = static_cast<std::int64_t>(t.bytes()) <= Board::payload_bytes &&
                     t.device().type == DeviceType::host;
  switch (operation.kind) {
    case Kind::barrier:
      return true;
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::broadcast:
      return small;
    case Kind::all_gather:
    case Kind::gather:
      return small && operation.output_counts.empty();
    default:
      return false;
  }
}

void perform_in_slots(const NodeGroup& node, const Operation& operation) {
  const Tensor& output = operation.output;
  const auto payload = [&](int r) { return slot(node, operation, r).payload; };
  switch (operation.kind) {
    case Kind::all_reduce:
    case Kind::reduce: {
      if (!output.defined()) return;
      void* const target = output.data();
      return reduce_ranks(operation.op, output.dtype(), sources_of(node, payload), output.numel(),
                          {&target, 1});
    }
    case Kind::broadcast:
      if (node.rank() == operation.root) return;
      return copy_bytes(output.data(), payload(operation.root),
                        static_cast<std::int64_t>(output.bytes()));
    case Kind::all_gather:
    case Kind::gather: {
      if (!output.defined()) return;
      const std::int64_t part = operation.input.numel();
      for (int r = 0; r < node.size(); ++r) {
        copy_bytes(address_of(output, r * part), payload(r),
                   static_cast<std::int64_t>(operation.input.bytes()));
      }
      return;
    }
    default:
      return;
  }
}

bool goes_in_place(const NodeGroup& node, const Operation& operation) noexcept {
  const auto on_all = [&](const SharedPlace Board::Slot::*place) {
    for (int r = 0; r < node.size(); ++r) {
      if ((slot(node, operation, r).*place).buffer < 0) return false;
    }
    return true;
  };
  switch (operation.kind) {
    case Kind::all_reduce:
      return on_all(&Board::Slot::input) && on_all(&Board::Slot::output);
    case Kind::broadcast:
      return slot(node, operation, operation.root).input.buffer >= 0;
    case Kind::all_gather:
    case Kind::reduce_scatter:
      return on_all(&Board::Slot::input);
    default:
      return false;
  }
}

std::int64_t perform_in_place(const NodeGroup& node, const Operation& operation,
                              std::int64_t cursor) {
  const std::int64_t element = element_of(operation);
  const auto input_on = [&](int r) { return node.address(slot(node, operation, r).input, r); };
  const Tensor &input = operation.input, &output = operation.output;
  switch (operation.kind) {
    case Kind::all_reduce:
      return reduce_share(node, operation, operation.op, node.size(), cursor);
    case Kind::broadcast:
      copy_bytes(output.data(), input_on(operation.root),
                 static_cast<std::int64_t>(output.bytes()));
      return -1;
    case Kind::all_gather:
      for (int r = 0; r < node.size(); ++r) {
        const Block part = block_of(operation.output_counts, output.numel(), node.size(), r);
        copy_bytes(address_of(output, part.begin), input_on(r), part.count * element);
      }
      return -1;
    case Kind::reduce_scatter: {
      const Block part = block_of(operation.input_counts, input.numel(), node.size(), node.rank());
      void* const target = output.data();
      reduce_ranks(operation.op, input.dtype(),
                   sources_of(node, [&](int r) { return input_on(r) + part.begin * element; }),
                   part.count, {&target, 1});
      return -1;
    }
    default:
      return -1;
  }
}

bool goes_by_relay(const NodeGroup& node, const Operation& operation) noexcept {
  return operation.kind == Kind::all_reduce && node.has_relay() &&
         operation.input.device().type == DeviceType::host;
}

Block relay_piece(const Operation& operation, std::int64_t begin) noexcept {
  return {begin, std::min(operation.input.numel() - begin,
                          NodeGroup::relay_bytes / element_of(operation))};
}

void copy_to_relay(const NodeGroup& node, const Operation& operation, Block piece) {
  copy_bytes(node.address(node.relay(), node.rank()), address_of(operation.input, piece.begin),
             piece.count * element_of(operation));
}

void reduce_in_relay(const NodeGroup& node, const Operation& operation, Block piece) {
  const std::int64_t element = element_of(operation);
  const Block share = share_of(piece.count, element, node.size(), node.rank());
  const auto relay = [&](int) { return node.relay(); };
  reduce_at(node, operation.op, operation.input.dtype(), share.begin * element, share.count,
            node.size(), relay, relay);
}

void copy_from_relay(const NodeGroup& node, const Operation& operation, Block piece) {
  copy_bytes(address_of(operation.output, piece.begin), node.address(node.relay(), node.rank()),
             piece.count * element_of(operation));
}

bool goes_over_nodes(const NodeGroup& node, const Operation& operation) noexcept {
  const DType dtype = operation.input.dtype();
  return operation.kind == Kind::all_reduce && dtype != DType::f16 && dtype != DType::bf16 &&
         goes_in_place(node, operation);
}

std::int64_t sum_on_leader(const NodeGroup& node, const Operation& operation, std::int64_t cursor) {
  const ReduceOp op = operation.op == ReduceOp::avg ? ReduceOp::sum : operation.op;
  return reduce_share(node, operation, op, 1, cursor);
}

void copy_from_leader(const NodeGroup& node, const Operation& operation) {
  copy_bytes(operation.output.data(), node.address(slot(node, operation, 0).output, 0),
             static_cast<std::int64_t>(operation.output.bytes()));
}

}  // namespace lockstep
