#include <lockstep/comm/process_group.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/arguments.hpp>
#include <lockstep/comm/coalescing.hpp>
#include <lockstep/comm/duplicate_group.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/comm/subgroup.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

Operation operation_on(Kind kind, const Tensor& input, const Tensor& output) {
  Operation operation;
  operation.kind = kind;
  operation.input = input;
  operation.output = output;
  return operation;
}

Operation rooted(Kind kind, int root, const Tensor& input, const Tensor& output) {
  Operation operation = operation_on(kind, input, output);
  operation.root = root;
  return operation;
}

Operation reduction(Kind kind, ReduceOp op, const Tensor& input, const Tensor& output) {
  Operation operation = operation_on(kind, input, output);
  operation.op = op;
  return operation;
}

Call call_on(const ProcessGroup& group, const char* name) {
  if (group.rank() < 0) refuse_outside(group, name);
  return {name, group.rank(), group.size()};
}

}  // namespace

Work ProcessGroup::launch(Operation&& operation) {
  operation.device = common_device(operation);
  Work work = start(std::move(operation));
  if (coalescing_thread_.load() == std::this_thread::get_id()) {
    coalescing_->works_.push_back(work);
  }
  return work;
}

Work ProcessGroup::start_on(ProcessGroup& group, Operation&& operation) {
  return group.start(std::move(operation));
}

Work ProcessGroup::all_reduce(const Tensor& input, const Tensor& output, ReduceOp op) {
  const Call call = call_on(*this, "all_reduce");
  expect_defined(call, {"its input", input});
  expect_defined(call, {"its output", output});
  expect_equal(call, input, output);
  expect_in_place_or_apart(call, input, output, 0);
  expect_reducible(call, op, input);
  return launch(reduction(Kind::all_reduce, op, input, output));
}

Work ProcessGroup::reduce(const Tensor& input, const Tensor& output, int root, ReduceOp op) {
  const Call call = call_on(*this, "reduce");
  const bool gets = rank() == root;
  expect_root(call, root);
  expect_defined(call, {"its input", input});
  if (gets) {
    expect_defined(call, {"the root's output", output});
    expect_equal(call, input, output);
    expect_in_place_or_apart(call, input, output, 0);
  }
  expect_reducible(call, op, input);
  Operation operation = rooted(Kind::reduce, root, input, gets ? output : Tensor());
  operation.op = op;
  return launch(std::move(operation));
}

Work ProcessGroup::broadcast(const Tensor& t, int root) {
  const Call call = call_on(*this, "broadcast");
  expect_root(call, root);
  expect_defined(call, {"its argument", t});
  return launch(rooted(Kind::broadcast, root, t, t));
}

Work ProcessGroup::all_gather(const Tensor& input, const Tensor& output) {
  const Call call = call_on(*this, "all_gather");
  expect_defined(call, {"its input", input});
  expect_defined(call, {"its output", output});
  expect_rows(call, input, output, rank());
  return launch(operation_on(Kind::all_gather, input, output));
}

Work ProcessGroup::all_gather_v(const Tensor& input, const Tensor& output,
                                ListView<std::int64_t> counts) {
  const Call call = call_on(*this, "all_gather_v");
  expect_defined(call, {"its output", output});
  Operation operation = operation_on(Kind::all_gather, input, output);
  operation.output_counts =
      expect_share(call, {"its input", input}, {"its output", output}, counts);
  return launch(std::move(operation));
}

Work ProcessGroup::gather(const Tensor& input, const Tensor& output, int root) {
  const Call call = call_on(*this, "gather");
  const bool gets = rank() == root;
  expect_root(call, root);
  expect_defined(call, {"its input", input});
  if (gets) {
    expect_defined(call, {"the root's output", output});
    expect_rows(call, input, output, root);
  }
  return launch(rooted(Kind::gather, root, input, gets ? output : Tensor()));
}

Work ProcessGroup::gather_v(const Tensor& input, const Tensor& output,
                            ListView<std::int64_t> counts, int root) {
  const Call call = call_on(*this, "gather_v");
  const bool gets = rank() == root;
  expect_root(call, root);
  if (gets) expect_defined(call, {"the root's output", output});
  Operation operation = rooted(Kind::gather, root, input, gets ? output : Tensor());
  operation.output_counts =
      expect_share(call, {"its input", input}, {"the root's output", operation.output}, counts);
  return launch(std::move(operation));
}

Work ProcessGroup::scatter(const Tensor& input, const Tensor& output, int root) {
  const Call call = call_on(*this, "scatter");
  const bool brings = rank() == root;
  expect_root(call, root);
  expect_defined(call, {"its output", output});
  if (brings) {
    expect_defined(call, {"the root's input", input});
    expect_rows(call, output, input, root);
  }
  return launch(rooted(Kind::scatter, root, brings ? input : Tensor(), output));
}

Work ProcessGroup::scatter_v(const Tensor& input, const Tensor& output,
                             ListView<std::int64_t> counts, int root) {
  const Call call = call_on(*this, "scatter_v");
  const bool brings = rank() == root;
  expect_root(call, root);
  if (brings) expect_defined(call, {"the root's input", input});
  Operation operation = rooted(Kind::scatter, root, brings ? input : Tensor(), output);
  operation.input_counts =
      expect_share(call, {"its output", output}, {"the root's input", operation.input}, counts);
  return launch(std::move(operation));
}

Work ProcessGroup::reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) {
  const Call call = call_on(*this, "reduce_scatter");
  expect_defined(call, {"its input", input});
  expect_defined(call, {"its output", output});
  expect_rows(call, output, input, rank());
  expect_reducible(call, op, input);
  return launch(reduction(Kind::reduce_scatter, op, input, output));
}

Work ProcessGroup::reduce_scatter_v(const Tensor& input, const Tensor& output,
                                    ListView<std::int64_t> counts, ReduceOp op) {
  const Call call = call_on(*this, "reduce_scatter_v");
  expect_defined(call, {"its input", input});
  Operation operation = reduction(Kind::reduce_scatter, op, input, output);
  operation.input_counts = expect_share(call, {"its output", output}, {"its input", input}, counts);
  expect_reducible(call, op, input);
  return launch(std::move(operation));
}

Work ProcessGroup::all_to_all(const Tensor& input, const Tensor& output) {
  const Call call = call_on(*this, "all_to_all");
  expect_defined(call, {"its input", input});
  expect_defined(call, {"its output", output});
  expect_equal(call, input, output);
  expect_row_a_rank(call, {"its input", input});
  expect_apart(call, input, output);
  return launch(operation_on(Kind::all_to_all, input, output));
}

Work ProcessGroup::all_to_all_v(const Tensor& input, const Tensor& output,
                                ListView<std::int64_t> send_counts,
                                ListView<std::int64_t> receive_counts) {
  const Call call = call_on(*this, "all_to_all_v");
  expect_defined(call, {"its input", input});
  expect_defined(call, {"its output", output});
  expect_counts(call, send_counts);
  expect_counts(call, receive_counts);
  expect_same_rows(call, input, output);
  expect_total(call, {"its input", input}, send_counts);
  expect_total(call, {"its output", output}, receive_counts);
  expect_apart(call, input, output);
  Operation operation = operation_on(Kind::all_to_all, input, output);
  operation.input_counts = element_counts(input, send_counts);
  operation.output_counts = element_counts(output, receive_counts);
  return launch(std::move(operation));
}

void ProcessGroup::barrier() { start(Operation{}).wait(); }

Work ProcessGroup::isend(const Tensor& t, int peer, int tag) {
  const Call call = call_on(*this, "send");
  expect_defined(call, {"its argument", t});
  expect_peer(call, peer, tag);
  Operation operation = rooted(Kind::send, peer, t, Tensor());
  operation.tag = tag;
  return launch(std::move(operation));
}

Work ProcessGroup::irecv(const Tensor& t, int peer, int tag) {
  const Call call = call_on(*this, "recv");
  expect_defined(call, {"its argument", t});
  expect_peer(call, peer == any_source ? 0 : peer, tag);
  Operation operation = rooted(Kind::receive, peer, Tensor(), t);
  operation.tag = tag;
  return launch(std::move(operation));
}

int ProcessGroup::recv(const Tensor& t, int peer, int tag) {
  Work work = irecv(t, peer, tag);
  work.wait();
  return work.source();
}

Tensor ProcessGroup::shared_buffer(const Shape& shape, DType dtype) {
  return Tensor::zeros(shape, dtype);
}

std::shared_ptr<ProcessGroup> duplicate_of(ProcessGroup& group) {
  if (!group.duplicate_) group.duplicate_ = group.split(0, group.rank());
  return group.duplicate_;
}

void ProcessGroup::close() {
  const auto other = std::exchange(duplicate_, nullptr);
  release();
  if (other) other->close();
}

std::shared_ptr<ProcessGroup> ProcessGroup::subgroup(std::span<const int> members,
                                                     std::span<const int> of_the_others) {
  auto group = make_subgroup(members);
  if (members.empty()) {
    group = std::make_shared<OutsideGroup>(rank(), static_cast<int>(of_the_others.size()));
    members = of_the_others;
  }
  std::vector<int> global(members.begin(), members.end());
  for (int& member : global) member = global_rank(member);
  if (global != group->ranks()) group->global_ranks_ = std::move(global);
  return group;
}

std::shared_ptr<ProcessGroup> ProcessGroup::make_subgroup_of(ProcessGroup& group,
                                                             std::span<const int> members) {
  return group.make_subgroup(members);
}

std::shared_ptr<ProcessGroup> ProcessGroup::new_group(ListView<int> ranks) {
  if (rank() < 0) refuse_outside(*this, "new_group");
  const std::vector<int> list(ranks.begin(), ranks.end());
  expect_same_members(*this, {&list, 1}, "new_group");
  expect_members(ranks, size(), "new_group");
  const bool is_member = std::ranges::find(ranks, rank()) != ranks.end();
  return subgroup(is_member ? std::span<const int>(ranks) : std::span<const int>(), ranks);
}

std::shared_ptr<ProcessGroup> ProcessGroup::split(int colour, int key) {
  if (rank() < 0) refuse_outside(*this, "split");
  return subgroup(members_of_split(*this, colour, key), {});
}

std::shared_ptr<ProcessGroup> ProcessGroup::new_subgroups(int group_size) {
  if (rank() < 0) refuse_outside(*this, "new_subgroups");
  if (group_size < 1 || size() % group_size != 0) {
    throw InputError(fmt::format(
        "new_subgroups of {} ranks: a group of {} ranks does not divide into parts of this size",
        group_size, size()));
  }
  return split(rank() / group_size, rank() % group_size);
}

std::shared_ptr<ProcessGroup> ProcessGroup::new_subgroups_by_enumeration(
    ListView<std::vector<int>> ranks_per_subgroup) {
  constexpr auto call = "new_subgroups_by_enumeration";
  if (rank() < 0) refuse_outside(*this, call);
  expect_same_members(*this, ranks_per_subgroup, call);
  std::vector<int> all;
  for (const auto& ranks : ranks_per_subgroup) all.insert(all.end(), ranks.begin(), ranks.end());
  expect_members(all, size(), call);
  const auto mine = std::ranges::find_if(ranks_per_subgroup, [&](const std::vector<int>& ranks) {
    return std::ranges::find(ranks, rank()) != ranks.end();
  });
  return subgroup(mine == ranks_per_subgroup.end() ? std::span<const int>() : *mine, {});
}

void ProcessGroup::set_name(std::string name) {
  name_ = std::move(name);
  take_name(name_);
}

std::vector<int> ProcessGroup::ranks() const {
  if (!global_ranks_.empty()) return global_ranks_;
  std::vector<int> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int ProcessGroup::global_rank(int rank) const {
  if (rank < 0 || rank >= size()) {
    throw InputError(fmt::format("there is no rank {} in a group of {}", rank, size()));
  }
  return global_ranks_.empty() ? rank : global_ranks_[static_cast<std::size_t>(rank)];
}

int ProcessGroup::group_rank(int global_rank) const {
  const std::vector<int> all = ranks();
  const auto place = std::ranges::find(all, global_rank);
  if (place == all.end()) {
    throw InputError(fmt::format("global rank {} is not in this group, which has [{}]", global_rank,
                                 fmt::join(all, ", ")));
  }
  return static_cast<int>(place - all.begin());
}

}  // namespace lockstep
