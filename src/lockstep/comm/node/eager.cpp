#include <lockstep/comm/node/eager.hpp>

#include <lockstep/comm/node/fill_output.hpp>

namespace lockstep {

using Kind = Operation::Kind;

bool is_eager(const Operation& operation) noexcept {
  const Tensor& t = operation.input.defined() ? operation.input : operation.output;
  const bool small = static_cast<std::int64_t>(t.bytes()) <= SlotTable::payload_bytes &&
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

void post_eager(const Operation& operation, SlotTable::Slot& mine) {
  if (!operation.input.defined()) return;
  copy_bytes(mine.payload, operation.input.data(),
             static_cast<std::int64_t>(operation.input.bytes()));
}

void complete_eager(ComputeNode& node, const Operation& operation) {
  fill_output(node, operation, [&](int r) { return slot_of(node, operation, r).payload; });
}

}  // namespace lockstep
