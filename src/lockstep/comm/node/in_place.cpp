#include <lockstep/comm/node/in_place.hpp>

#include <lockstep/comm/node/memory.hpp>
#include <lockstep/comm/node/reduce_ranks.hpp>
#include <lockstep/comm/node/shares.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

std::byte* input_on(const ComputeNode& node, const Operation& operation, int r) {
  return node.address(slot_of(node, operation, r).input, r);
}

/// output = the reduction of every rank's input, from element `begin` on.
void reduce_into(ComputeNode& node, const Operation& operation, std::int64_t begin) {
  const Tensor& output = operation.output;
  if (!output.defined()) return;
  const std::int64_t offset = begin * element_bytes(operation);
  void* const target = output.data();
  const auto source = [&](int r) { return input_on(node, operation, r) + offset; };
  reduce_ranks(operation.op, output.dtype(), on_every_rank(node, source), output.numel(),
               {&target, 1});
}

/// Rank r's part of output = what it brings.
void gather(const ComputeNode& node, const Operation& operation) {
  const Tensor& output = operation.output;
  if (!output.defined()) return;
  for (int r = 0; r < node.size(); ++r) {
    const Block part = block_of(operation.output_counts, output.numel(), node.size(), r);
    copy_bytes(address_of(output, part.begin), input_on(node, operation, r),
               part.count * element_bytes(operation));
  }
}

/// output = this rank's part of what rank `from` brings.
void scatter(const ComputeNode& node, const Operation& operation, int from) {
  const Tensor& output = operation.output;
  const std::int64_t whole = operation.input_counts.empty() ? output.numel() * node.size() : 0;
  const Block part = block_of(operation.input_counts, whole, node.size(), node.rank());
  copy_bytes(output.data(), input_on(node, operation, from) + part.begin * element_bytes(operation),
             static_cast<std::int64_t>(output.bytes()));
}

/// Rank r's part of output = this rank's part of what r brings. What r sends to whom, only ranks of
/// the same process can see: others bring equal shares.
void all_to_all(const ComputeNode& node, const Operation& operation) {
  for (int r = 0; r < node.size(); ++r) {
    const auto& sent = node.is_one_process() ? slot_of(node, operation, r).operation->input_counts
                                             : operation.input_counts;
    const std::int64_t numel = operation.input.numel();
    const Block from = block_of(sent, numel, node.size(), node.rank());
    const Block to = block_of(operation.output_counts, operation.output.numel(), node.size(), r);
    const std::int64_t element = element_bytes(operation);
    copy_bytes(address_of(operation.output, to.begin),
               input_on(node, operation, r) + from.begin * element, to.count * element);
  }
}

/// Some of this rank's part, from element `cursor` on; where to go on, or -1 when it is done.
std::int64_t perform(ComputeNode& node, const Operation& operation, std::int64_t cursor) {
  switch (operation.kind) {
    case Kind::all_reduce:
      return reduce_share(node, operation, cursor);
    case Kind::reduce:
      reduce_into(node, operation, 0);
      break;
    case Kind::reduce_scatter:
      reduce_into(
          node, operation,
          block_of(operation.input_counts, operation.input.numel(), node.size(), node.rank())
              .begin);
      break;
    case Kind::broadcast:
      copy_bytes(operation.output.data(), input_on(node, operation, operation.root),
                 static_cast<std::int64_t>(operation.output.bytes()));
      break;
    case Kind::all_gather:
    case Kind::gather:
      gather(node, operation);
      break;
    case Kind::scatter:
      scatter(node, operation, operation.root);
      break;
    case Kind::all_to_all:
      all_to_all(node, operation);
      break;
    case Kind::barrier:
    case Kind::send:
    case Kind::receive:
      break;
  }
  return -1;
}

}  // namespace

bool InPlace::fits(const ComputeNode& node, const Operation& operation) noexcept {
  if (node.is_one_process()) return true;
  const auto on_all = [&](const SharedPlace Board::Slot::*place) {
    return all_in_buffers(node, operation, place);
  };
  switch (operation.kind) {
    case Kind::all_reduce:
      return on_all(&Board::Slot::input) && on_all(&Board::Slot::output);
    case Kind::broadcast:
    case Kind::scatter:
      return slot_of(node, operation, operation.root).input.buffer >= 0;
    case Kind::reduce:
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::gather:
      return on_all(&Board::Slot::input);
    case Kind::all_to_all:
      return operation.input_counts.empty() && on_all(&Board::Slot::input);
    default:
      return false;
  }
}

Motion InPlace::move(ComputeNode& node, const Operation& operation, WorkClock& clock) {
  auto motion = Motion::none;
  if (stages_.finished() == 0) {
    const WorkClock::Working working(clock,
                                     operation.output.defined() ? operation.output.bytes() : 0);
    cursor_ = perform(node, operation, cursor_);
    motion = Motion::some;
    if (cursor_ >= 0) return motion;  // others get their turn
    stages_.finish(node, operation, 1);
  }
  return stages_.all_have_finished(node, operation, 1) ? Motion::over : motion;
}

}  // namespace lockstep
