#include <lockstep/comm/fake_group.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/failure.hpp>
#include <lockstep/comm/operation.hpp>

namespace lockstep {
namespace {

/// This rank's part of `input`.
Tensor own_part(const Operation& operation, int size, int rank) {
  return elements_of(operation.input, input_block(operation, size, rank));
}

/// Does nothing where an in-place call already has its part.
void copy(const Tensor& from, const Tensor& to) {
  if (from.data() != to.data()) to.copy_from(from);
}

bool brings(const Operation& operation, int rank) {
  const bool is_receiver = operation.kind == Operation::Kind::broadcast && operation.root != rank;
  return operation.input.defined() && !is_receiver;
}

void fill_as_if_alone(const Operation& operation, int size, int rank) {
  using Kind = Operation::Kind;
  const Tensor &input = operation.input, &output = operation.output;
  if (!input.defined() || !output.defined()) return;
  const auto flat = elements_of(output, {0, output.numel()});
  switch (operation.kind) {
    case Kind::all_gather:
    case Kind::gather:
    case Kind::all_to_all:
      for (int r = 0; r < size; ++r) {
        const Block to = output_block(operation, size, r);
        const Tensor source =
            operation.kind == Kind::all_to_all ? own_part(operation, size, rank) : input;
        const std::int64_t count = std::min(to.count, source.numel());
        copy(elements_of(source, {0, count}), elements_of(output, {to.begin, count}));
      }
      return;
    case Kind::scatter:
    case Kind::reduce_scatter:
      return copy(own_part(operation, size, rank), flat);
    default:
      return copy(elements_of(input, {0, input.numel()}), flat);
  }
}

}  // namespace

FakeGroup::FakeGroup(int size, int rank) : size_(size), rank_(rank) {
  if (rank < 0 || rank >= size) {
    throw InputError(fmt::format("there is no rank {} in a group of {}", rank, size));
  }
}

void FakeGroup::expect_open() const {
  if (!closed_) return;
  throw ErrorOnRank<CommError>({rank_, ""},
                               refusal(fmt::format("rank {} of {}", rank_, size_),
                                       "it was closed. Make a new one, or close it later."));
}

Work FakeGroup::start(Operation&& operation) {
  expect_open();
  ++traffic_.operations;
  if (brings(operation, rank_)) {
    traffic_.bytes += static_cast<std::int64_t>(operation.input.bytes());
  }
  fill_as_if_alone(operation, size_, rank_);
  return {};
}

std::shared_ptr<ProcessGroup> FakeGroup::make_subgroup(std::span<const int> members) {
  if (members.empty()) return nullptr;
  const auto place = std::ranges::find(members, rank_);
  return std::make_shared<FakeGroup>(static_cast<int>(members.size()),
                                     static_cast<int>(place - members.begin()));
}

}  // namespace lockstep
