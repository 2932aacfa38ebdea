#include <lockstep/comm/local_collective.hpp>

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/call_record.hpp>
#include <lockstep/comm/reduce_ranks.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;
using Calls = std::span<const Operation* const>;

int ranks_in(Calls calls) { return static_cast<int>(calls.size()); }

const Operation& call_of(Calls calls, int rank) { return *calls[static_cast<std::size_t>(rank)]; }

Block whole(const Tensor& t) { return {0, t.numel()}; }

Block input_block(Calls calls, const Operation& from, int to) {
  return block_of(from.input_counts, from.input.numel(), ranks_in(calls), to);
}
Block output_block(Calls calls, const Operation& to, int from) {
  return block_of(to.output_counts, to.output.numel(), ranks_in(calls), from);
}

void copy(const Tensor& source, Block from, const Tensor& target, Block to) {
  const std::byte* begin = address_of(source, from.begin);
  std::byte* end = address_of(target, to.begin);
  if (begin == end || from.count == 0) return;
  std::memcpy(end, begin, static_cast<std::size_t>(from.count) * size_of(source.dtype()));
}

/// Every target = the reduction of that block of all inputs.
void reduce(Calls calls, Block block, std::span<void* const> targets,
            std::vector<const void*>& sources) {
  sources.clear();
  for (const Operation* call : calls) sources.push_back(address_of(call->input, block.begin));
  reduce_ranks(calls[0]->op, calls[0]->input.dtype(), sources, block.count, targets);
}

void expect_matching_lengths(Calls calls) {
  for (int from = 0; from < ranks_in(calls); ++from) {
    for (int to = 0; to < ranks_in(calls); ++to) {
      const auto sent = input_block(calls, call_of(calls, from), to).count;
      const auto expected = output_block(calls, call_of(calls, to), from).count;
      if (sent == expected) continue;
      throw CommError(fmt::format(
          "{}: rank {} sends {} elements to rank {}, which expects {}: receive_counts must be what "
          "the others send",
          describe(call_of(calls, from)), from, sent, to, expected));
    }
  }
}

void all_to_all(Calls calls) {
  expect_matching_lengths(calls);
  for (int from = 0; from < ranks_in(calls); ++from) {
    for (int to = 0; to < ranks_in(calls); ++to) {
      const Operation &source = call_of(calls, from), &target = call_of(calls, to);
      copy(source.input, input_block(calls, source, to), target.output,
           output_block(calls, target, from));
    }
  }
}

void gather_on(Calls calls, const Operation& target) {
  for (int from = 0; from < ranks_in(calls); ++from) {
    const Tensor& input = call_of(calls, from).input;
    copy(input, whole(input), target.output, output_block(calls, target, from));
  }
}

}  // namespace

void perform(Calls calls, CollectiveScratch& scratch) {
  const Operation& first = *calls[0];
  const Operation& root = call_of(calls, first.root);
  switch (first.kind) {
    case Kind::all_reduce: {
      scratch.targets.clear();
      for (const Operation* call : calls) scratch.targets.push_back(call->output.data());
      return reduce(calls, whole(first.input), scratch.targets, scratch.sources);
    }
    case Kind::reduce: {
      void* const output = root.output.data();
      return reduce(calls, whole(first.input), {&output, 1}, scratch.sources);
    }
    case Kind::reduce_scatter:
      for (int to = 0; to < ranks_in(calls); ++to) {
        void* const output = call_of(calls, to).output.data();
        reduce(calls, input_block(calls, first, to), {&output, 1}, scratch.sources);
      }
      return;
    case Kind::broadcast:
      for (const Operation* call : calls) {
        copy(root.input, whole(root.input), call->output, whole(call->output));
      }
      return;
    case Kind::all_gather:
      for (const Operation* call : calls) gather_on(calls, *call);
      return;
    case Kind::gather:
      return gather_on(calls, root);
    case Kind::scatter:
      for (int to = 0; to < ranks_in(calls); ++to) {
        const Tensor& output = call_of(calls, to).output;
        copy(root.input, input_block(calls, root, to), output, whole(output));
      }
      return;
    case Kind::all_to_all:
      return all_to_all(calls);
    case Kind::barrier:
    case Kind::send:
    case Kind::receive:
      return;
  }
}

}  // namespace lockstep
