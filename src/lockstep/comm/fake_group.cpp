#include <lockstep/comm/fake_group.hpp>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/operation.hpp>

namespace lockstep {

FakeGroup::FakeGroup(int size, int rank) : size_(size), rank_(rank) {
  if (rank < 0 || rank >= size) {
    throw InputError(fmt::format("there is no rank {} in a group of {}", rank, size));
  }
}

Work FakeGroup::count(const Operation& operation) {
  if (closed_) {
    throw CommError(refusal(fmt::format("rank {} of {}", rank_, size_),
                            "it was closed. Make a new one, or close it later."));
  }
  const Tensor& brought = operation.input.defined() ? operation.input : operation.output;
  ++traffic_.operations;
  if (brought.defined()) traffic_.bytes += static_cast<std::int64_t>(brought.bytes());
  return {};
}

Work FakeGroup::all_reduce(const Tensor& t, ReduceOp op) {
  return count(all_reduce_operation(t, op));
}

Work FakeGroup::broadcast(const Tensor& t, int root) {
  return count(broadcast_operation(t, root, size_));
}

Work FakeGroup::all_gather(const Tensor& input, const Tensor& output) {
  Work work = count(all_gather_operation(input, output, size_));
  for (int r = 0; r < size_; ++r) {
    output.slice(r, r + 1).reshape(input.shape()).copy_from(input);
  }
  return work;
}

void FakeGroup::barrier() { count(Operation{}); }

}  // namespace lockstep
