#include <lockstep/comm/process_group.hpp>

#include <algorithm>
#include <utility>

#include <lockstep/comm/arguments.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/comm/subgroup.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

/// The first element of a rank's block.
std::int64_t begin_of(int rank, const std::vector<std::int64_t>& counts) {
  return block_of(counts, 0, static_cast<int>(counts.size()), rank).begin;
}

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

}  // namespace

Work ProcessGroup::launch(Operation&& operation) {
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
  const Call call{"all_reduce", rank(), size()};
  expect_defined(call, "its input", input);
  expect_defined(call, "its output", output);
  expect_equal(call, input, output);
  expect_in_place_or_apart(call, input, output, 0);
  expect_reducible(call, op, input);
  return launch(reduction(Kind::all_reduce, op, input, output));
}

Work ProcessGroup::reduce(const Tensor& input, const Tensor& output, int root, ReduceOp op) {
  const Call call{"reduce", rank(), size()};
  const bool gets = rank() == root;
  expect_root(call, root);
  expect_defined(call, "its input", input);
  if (gets) {
    expect_defined(call, "the root's output", output);
    expect_equal(call, input, output);
    expect_in_place_or_apart(call, input, output, 0);
  }
  expect_reducible(call, op, input);
  Operation operation = rooted(Kind::reduce, root, input, gets ? output : Tensor());
  operation.op = op;
  return launch(std::move(operation));
}

Work ProcessGroup::broadcast(const Tensor& t, int root) {
  const Call call{"broadcast", rank(), size()};
  expect_root(call, root);
  expect_defined(call, "its argument", t);
  return launch(rooted(Kind::broadcast, root, t, t));
}

Work ProcessGroup::all_gather(const Tensor& input, const Tensor& output) {
  const Call call{"all_gather", rank(), size()};
  expect_defined(call, "its input", input);
  expect_defined(call, "its output", output);
  expect_rows(call, input, output);
  expect_in_place_or_apart(call, input, output, rank() * input.numel());
  return launch(operation_on(Kind::all_gather, input, output));
}

Work ProcessGroup::all_gather_v(const Tensor& input, const Tensor& output,
                                std::span<const std::int64_t> counts) {
  const Call call{"all_gather_v", rank(), size()};
  expect_defined(call, "its input", input);
  expect_defined(call, "its output", output);
  expect_counts(call, counts);
  expect_same_rows(call, input, output);
  expect_share(call, "its input", input, counts[static_cast<std::size_t>(rank())]);
  expect_total(call, "its output", output, counts);
  Operation operation = operation_on(Kind::all_gather, input, output);
  operation.output_counts = element_counts(output, counts);
  expect_in_place_or_apart(call, input, output, begin_of(rank(), operation.output_counts));
  return launch(std::move(operation));
}

Work ProcessGroup::gather(const Tensor& input, const Tensor& output, int root) {
  const Call call{"gather", rank(), size()};
  const bool gets = rank() == root;
  expect_root(call, root);
  expect_defined(call, "its input", input);
  if (gets) {
    expect_defined(call, "the root's output", output);
    expect_rows(call, input, output);
    expect_in_place_or_apart(call, input, output, root * input.numel());
  }
  return launch(rooted(Kind::gather, root, input, gets ? output : Tensor()));
}

Work ProcessGroup::gather_v(const Tensor& input, const Tensor& output,
                            std::span<const std::int64_t> counts, int root) {
  const Call call{"gather_v", rank(), size()};
  const bool gets = rank() == root;
  expect_root(call, root);
  expect_defined(call, "its input", input);
  expect_counts(call, counts);
  expect_share(call, "its input", input, counts[static_cast<std::size_t>(rank())]);
  if (gets) {
    expect_defined(call, "the root's output", output);
    expect_same_rows(call, input, output);
    expect_total(call, "the root's output", output, counts);
  }
  Operation operation = rooted(Kind::gather, root, input, gets ? output : Tensor());
  operation.output_counts = element_counts(input, counts);
  if (gets) {
    expect_in_place_or_apart(call, input, output, begin_of(rank(), operation.output_counts));
  }
  return launch(std::move(operation));
}

Work ProcessGroup::scatter(const Tensor& input, const Tensor& output, int root) {
  const Call call{"scatter", rank(), size()};
  const bool brings = rank() == root;
  expect_root(call, root);
  expect_defined(call, "its output", output);
  if (brings) {
    expect_defined(call, "the root's input", input);
    expect_rows(call, output, input);
    expect_in_place_or_apart(call, output, input, root * output.numel());
  }
  return launch(rooted(Kind::scatter, root, brings ? input : Tensor(), output));
}

Work ProcessGroup::scatter_v(const Tensor& input, const Tensor& output,
                             std::span<const std::int64_t> counts, int root) {
  const Call call{"scatter_v", rank(), size()};
  const bool brings = rank() == root;
  expect_root(call, root);
  expect_defined(call, "its output", output);
  expect_counts(call, counts);
  expect_share(call, "its output", output, counts[static_cast<std::size_t>(rank())]);
  if (brings) {
    expect_defined(call, "the root's input", input);
    expect_same_rows(call, input, output);
    expect_total(call, "the root's input", input, counts);
  }
  Operation operation = rooted(Kind::scatter, root, brings ? input : Tensor(), output);
  operation.input_counts = element_counts(output, counts);
  if (brings) {
    expect_in_place_or_apart(call, output, input, begin_of(rank(), operation.input_counts));
  }
  return launch(std::move(operation));
}

Work ProcessGroup::reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) {
  const Call call{"reduce_scatter", rank(), size()};
  expect_defined(call, "its input", input);
  expect_defined(call, "its output", output);
  expect_rows(call, output, input);
  expect_in_place_or_apart(call, output, input, rank() * output.numel());
  expect_reducible(call, op, input);
  return launch(reduction(Kind::reduce_scatter, op, input, output));
}

Work ProcessGroup::reduce_scatter_v(const Tensor& input, const Tensor& output,
                                    std::span<const std::int64_t> counts, ReduceOp op) {
  const Call call{"reduce_scatter_v", rank(), size()};
  expect_defined(call, "its input", input);
  expect_defined(call, "its output", output);
  expect_counts(call, counts);
  expect_same_rows(call, input, output);
  expect_share(call, "its output", output, counts[static_cast<std::size_t>(rank())]);
  expect_total(call, "its input", input, counts);
  expect_reducible(call, op, input);
  Operation operation = reduction(Kind::reduce_scatter, op, input, output);
  operation.input_counts = element_counts(input, counts);
  expect_in_place_or_apart(call, output, input, begin_of(rank(), operation.input_counts));
  return launch(std::move(operation));
}

Work ProcessGroup::all_to_all(const Tensor& input, const Tensor& output) {
  const Call call{"all_to_all", rank(), size()};
  expect_defined(call, "its input", input);
  expect_defined(call, "its output", output);
  expect_equal(call, input, output);
  expect_row_a_rank(call, "its input", input);
  expect_apart(call, input, output);
  return launch(operation_on(Kind::all_to_all, input, output));
}

Work ProcessGroup::all_to_all_v(const Tensor& input, const Tensor& output,
                                std::span<const std::int64_t> send_counts,
                                std::span<const std::int64_t> receive_counts) {
  const Call call{"all_to_all_v", rank(), size()};
  expect_defined(call, "its input", input);
  expect_defined(call, "its output", output);
  expect_counts(call, send_counts);
  expect_counts(call, receive_counts);
  expect_same_rows(call, input, output);
  expect_total(call, "its input", input, send_counts);
  expect_total(call, "its output", output, receive_counts);
  expect_apart(call, input, output);
  Operation operation = operation_on(Kind::all_to_all, input, output);
  operation.input_counts = element_counts(input, send_counts);
  operation.output_counts = element_counts(output, receive_counts);
  return launch(std::move(operation));
}

void ProcessGroup::barrier() { start(Operation{}).wait(); }

Work ProcessGroup::isend(const Tensor& t, int peer, int tag) {
  const Call call{"send", rank(), size()};
  expect_defined(call, "its argument", t);
  expect_peer(call, peer, tag);
  Operation operation = rooted(Kind::send, peer, t, Tensor());
  operation.tag = tag;
  return launch(std::move(operation));
}

Work ProcessGroup::irecv(const Tensor& t, int peer, int tag) {
  const Call call{"recv", rank(), size()};
  expect_defined(call, "its argument", t);
  expect_peer(call, peer == any_source ? 0 : peer, tag);
  Operation operation = rooted(Kind::receive, peer, Tensor(), t);
  operation.tag = tag;
  return launch(std::move(operation));
}

Work ProcessGroup::irecv_message(int peer, int tag) {
  expect_peer({"recv", rank(), size()}, peer == any_source ? 0 : peer, tag);
  Operation operation = rooted(Kind::receive, peer, Tensor(), Tensor());
  operation.tag = tag;
  return launch(std::move(operation));
}

int ProcessGroup::recv(const Tensor& t, int peer, int tag) {
  Work work = irecv(t, peer, tag);
  work.wait();
  return work.source();
}

void ProcessGroup::wake_over_nodes(std::chrono::microseconds /*awake*/, bool /*by_datagrams*/) {}

Tensor ProcessGroup::shared_buffer(const Shape& shape, DType dtype) {
  return Tensor::zeros(shape, dtype);
}

std::shared_ptr<ProcessGroup> ProcessGroup::twin() {
  if (!twin_) twin_ = split(0, rank());
  return twin_;
}

void ProcessGroup::close() {
  const auto other = std::exchange(twin_, nullptr);
  release();
  if (other) other->close();
}

std::shared_ptr<ProcessGroup> ProcessGroup::new_group(std::span<const int> ranks) {
  expect_same_members(*this, ranks);
  expect_members(ranks, size());
  const auto place = std::ranges::find(ranks, rank());
  if (place == ranks.end()) return split(-1, 0);
  return split(0, static_cast<int>(place - ranks.begin()));
}

}  // namespace lockstep
