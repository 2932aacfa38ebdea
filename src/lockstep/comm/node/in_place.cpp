#include <lockstep/comm/node/in_place.hpp>

#include <lockstep/comm/node/fill_output.hpp>
#include <lockstep/comm/node/shares.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

/// Reduces some of this rank's share, from element `cursor` on. Returns the next cursor, or -1 at
/// the end.
std::int64_t perform(ComputeNode& node, const Operation& operation, std::int64_t cursor) {
  if (operation.kind == Kind::all_reduce) return reduce_share(node, operation, cursor);
  fill_output(node, operation,
              [&](int r) { return node.address(slot_of(node, operation, r).input, r); });
  return -1;
}

}  // namespace

bool InPlace::fits(const ComputeNode& node, const Operation& operation) noexcept {
  if (node.is_one_process()) return true;
  const auto on_all = [&](const SharedPlace SlotTable::Slot::*place) {
    return all_in_buffers(node, operation, place);
  };
  switch (operation.kind) {
    case Kind::all_reduce:
      return on_all(&SlotTable::Slot::input) && on_all(&SlotTable::Slot::output);
    case Kind::broadcast:
    case Kind::scatter:
      return slot_of(node, operation, operation.root).input.buffer >= 0;
    case Kind::reduce:
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::gather:
      return on_all(&SlotTable::Slot::input);
    case Kind::all_to_all:
      return operation.input_counts.empty() && on_all(&SlotTable::Slot::input);
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
    if (cursor_ >= 0) return motion;  // other operations are polled in between
    stages_.finish(node, operation, 1);
  }
  return stages_.all_have_finished(node, operation, 1) ? Motion::over : motion;
}

}  // namespace lockstep
