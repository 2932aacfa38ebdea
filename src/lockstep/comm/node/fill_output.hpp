#pragma once
#include <lockstep/comm/node/memory.hpp>
#include <lockstep/comm/node/reduce_ranks.hpp>

namespace lockstep {

/// Computes this rank's output of a collective from the inputs of all ranks of the node, which are
/// at `input_on(r)`. Reductions go in rank order. What r sends to whom in all_to_all, only ranks of
/// the same process can see: others bring equal shares.
template <class InputOn>
void fill_output(ComputeNode& node, const Operation& operation, const InputOn& input_on) {
  using Kind = Operation::Kind;
  const Tensor &input = operation.input, &output = operation.output;
  if (!output.defined()) return;
  const int size = node.size(), rank = node.rank();
  const std::int64_t element = element_bytes(operation);
  switch (operation.kind) {
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::reduce_scatter: {
      std::int64_t begin = 0;
      if (operation.kind == Kind::reduce_scatter) begin = input_block(operation, size, rank).begin;
      void* const target = output.data();
      const auto source = [&](int r) { return input_on(r) + begin * element; };
      return reduce_ranks(operation.op, output.dtype(), on_every_rank(node, source), output.numel(),
                          {&target, 1});
    }
    case Kind::broadcast:
      if (rank == operation.root) return;
      return copy_bytes(output.data(), input_on(operation.root), output.numel() * element);
    case Kind::scatter: {
      const std::int64_t whole = output.numel() * size;  // looked at without counts
      const Block part = block_of(operation.input_counts, whole, size, rank);
      return copy_bytes(output.data(), input_on(operation.root) + part.begin * element,
                        output.numel() * element);
    }
    case Kind::all_gather:
    case Kind::gather:
    case Kind::all_to_all:
      for (int r = 0; r < size; ++r) {
        const Block to = output_block(operation, size, r);
        std::int64_t begin = 0;
        if (operation.kind == Kind::all_to_all) {
          const auto& sent = node.is_one_process()
                                 ? slot_of(node, operation, r).operation->input_counts
                                 : operation.input_counts;
          begin = block_of(sent, input.numel(), size, rank).begin;
        }
        copy_bytes(address_of(output, to.begin), input_on(r) + begin * element, to.count * element);
      }
      return;
    case Kind::barrier:
    case Kind::send:
    case Kind::receive:
      return;
  }
}

}  // namespace lockstep
