#include <lockstep/comm/node/eager.hpp>

#include <lockstep/comm/node/memory.hpp>
#include <lockstep/comm/node/reduce_ranks.hpp>

namespace lockstep {

using Kind = Operation::Kind;

bool is_eager(const Operation& operation) noexcept {
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

void post_eager(const Operation& operation, Board::Slot& mine) {
  if (!operation.input.defined()) return;
  copy_bytes(mine.payload, operation.input.data(),
             static_cast<std::int64_t>(operation.input.bytes()));
}

void complete_eager(ComputeNode& node, const Operation& operation) {
  const Tensor& output = operation.output;
  const auto payload = [&](int r) { return slot_of(node, operation, r).payload; };
  switch (operation.kind) {
    case Kind::all_reduce:
    case Kind::reduce: {
      if (!output.defined()) return;
      void* const target = output.data();
      return reduce_ranks(operation.op, output.dtype(), on_every_rank(node, payload),
                          output.numel(), {&target, 1});
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

}  // namespace lockstep
