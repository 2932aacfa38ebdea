#include <lockstep/comm/fake_group.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/comm/subgroup.hpp>

namespace lockstep {
namespace {

/// This rank's part of `input`: what it would keep of its own.
Tensor own_part(const Operation& operation, int size, int rank) {
  return elements_of(operation.input,
                     block_of(operation.input_counts, operation.input.numel(), size, rank));
}

void fill_as_if_alone(const Operation& operation, int size, int rank) {
  using Kind = Operation::Kind;
  const Tensor &input = operation.input, &output = operation.output;
  if (!input.defined() || !output.defined() || operation.in_place()) return;
  const auto flat = elements_of(output, {0, output.numel()});
  switch (operation.kind) {
    case Kind::all_gather:
    case Kind::gather:
    case Kind::all_to_all:
      for (int r = 0; r < size; ++r) {
        const Block to = block_of(operation.output_counts, output.numel(), size, r);
        const Tensor source =
            operation.kind == Kind::all_to_all ? own_part(operation, size, rank) : input;
        const std::int64_t count = std::min(to.count, source.numel());
        elements_of(output, {to.begin, count}).copy_from(elements_of(source, {0, count}));
      }
      return;
    case Kind::scatter:
    case Kind::reduce_scatter:
      return flat.copy_from(own_part(operation, size, rank));
    default:
      return flat.copy_from(elements_of(input, {0, input.numel()}));
  }
}

}  // namespace

FakeGroup::FakeGroup(int size, int rank) : size_(size), rank_(rank) {
  if (rank < 0 || rank >= size) {
    throw InputError(fmt::format("there is no rank {} in a group of {}", rank, size));
  }
}

Work FakeGroup::start(Operation&& operation) {
  if (closed_) {
    throw CommError(refusal(fmt::format("rank {} of {}", rank_, size_),
                            "it was closed. Make a new one, or close it later."));
  }
  ++traffic_.operations;
  const Tensor& brought = operation.input.defined() ? operation.input : operation.output;
  if (brought.defined() && operation.kind != Operation::Kind::receive) {
    traffic_.bytes += static_cast<std::int64_t>(brought.bytes());
  }
  fill_as_if_alone(operation, size_, rank_);
  return {};
}

std::shared_ptr<ProcessGroup> FakeGroup::new_group(std::span<const int> ranks) {
  expect_members(ranks, size_);
  const auto place = std::ranges::find(ranks, rank_);
  if (place == ranks.end()) return nullptr;
  return std::make_shared<FakeGroup>(static_cast<int>(ranks.size()),
                                     static_cast<int>(place - ranks.begin()));
}

std::shared_ptr<ProcessGroup> FakeGroup::split(int colour, int key) {
  static_cast<void>(key);
  if (colour < 0) return nullptr;
  return std::make_shared<FakeGroup>(size_, rank_);
}

}  // namespace lockstep
