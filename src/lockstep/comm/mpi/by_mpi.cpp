#include <lockstep/comm/mpi/by_mpi.hpp>

#include <fmt/format.h>

#include <ctime>

#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

bool is_half(const Tensor& t) { return t.defined() && is_half(t.dtype()); }

// MPI does not report whether a call has moved bytes. An idle call takes less than 1 us of the
// thread's time; a call that copies part of a long message takes about 100 us.
constexpr double idle_s = 10e-6;
constexpr std::size_t long_bytes = 64 << 10;

bool is_long(const Operation& operation) {
  const auto bytes = [](const Tensor& t) { return t.defined() ? t.bytes() : 0; };
  return bytes(operation.input) >= long_bytes || bytes(operation.output) >= long_bytes;
}

/// Processor time of this thread: preemption does not count.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

bool ByMpi::needs_staging(const Operation& operation) noexcept {
  const Tensor &input = operation.input, &output = operation.output;
  if (!operation.reduces()) return false;
  // MPI has no 16-bit floats, and its reduce_scatter does not accept overlapping input and output.
  return is_half(input) || (operation.kind == Kind::reduce_scatter && overlap(input, output));
}

void ByMpi::stage(const Operation& operation) {
  const Tensor &input = operation.input, &output = operation.output;
  const auto wire_dtype = [&](const Tensor& t) { return is_half(t) ? DType::f32 : t.dtype(); };
  staged_input_ = input.to(wire_dtype(input));
  if (output.defined()) staged_output_ = Tensor::empty(output.shape(), wire_dtype(output));
}

Operation ByMpi::as_staged(const Operation& operation) const {
  Operation staged = operation;
  staged.input = staged_input_;
  staged.output = staged_output_;
  return staged;
}

void ByMpi::look_for_receives(PendingReceives& pending) {
  for (MpiReceive& receive : calls_.receives) {
    if (receive.looked_for) pending.add(receive);
  }
}

void ByMpi::start(const Operation& operation, const MpiPlace& place, PendingReceives& pending) {
  if (is_staged_) {
    stage(operation);
    start_calls(as_staged(operation), place, calls_);
  } else {
    start_calls(operation, place, calls_);
  }
  look_for_receives(pending);
}

Motion ByMpi::move(const Operation& operation, const MpiPlace& place, PendingReceives& pending) {
  const double start_s = is_long(operation) ? thread_seconds() : 0.0;
  const bool receives = operation.kind == Kind::receive;
  for (;;) {
    if (!receives_over(calls_, place, pending)) {
      if (receives) other_dtype_.look(*calls_.receives.begin(), operation, place, pending);
      break;
    }
    if (receives && OtherDtype::took_back(*calls_.receives.begin())) {
      other_dtype_.take(*calls_.receives.begin(), operation, place, pending);
      break;
    }
    if (other_dtype_.has_come()) {
      throw OperationFailure(
          OperationFailure::Kind::finding,
          other_dtype_.finding(operation, *calls_.receives.begin(), *place.ranks));
    }
    // Lengths are checked only now: every message has been received, so its sender can complete.
    for (const MpiReceive& receive : calls_.receives) {
      expect_length(operation, *place.ranks, receive);
    }
    if (!requests_over(calls_)) break;
    if (!goes_on(operation, place, pending)) {
      finish(operation, place.ranks->size());
      return Motion::over;
    }
  }
  const bool moved = is_long(operation) && thread_seconds() - start_s > idle_s;
  return moved ? Motion::some : Motion::none;
}

bool ByMpi::goes_on(const Operation& operation, const MpiPlace& place, PendingReceives& pending) {
  if (!calls_.arrived.defined()) return false;
  const bool more = go_on_with_calls(is_staged_ ? as_staged(operation) : operation, place, calls_);
  look_for_receives(pending);
  return more;
}

void ByMpi::cancel_receive(PendingReceives& pending) noexcept {
  MpiReceive& receive = *calls_.receives.begin();
  receive.cancel();
  if (receive.cancelled) pending.remove(receive);
}

void ByMpi::expect_length(const Operation& operation, const MpiRanks& ranks,
                          const MpiReceive& receive) {
  if (receive.length == receive.bytes || receive.bytes == MpiReceive::any_length ||
      receive.cancelled) {
    return;
  }
  const bool message = operation.is_message();
  const auto unit = message ? 1 : static_cast<std::int64_t>(size_of(operation.output.dtype()));
  const std::int64_t expected = receive.bytes / unit;
  const std::string came =
      receive.length == MpiReceive::too_long ? "more" : std::to_string(receive.length / unit);
  throw OperationFailure(
      OperationFailure::Kind::finding,
      message ? fmt::format("a message of {} bytes came where {} were expected", came, expected)
              : fmt::format("rank {} sent {} elements where {} were expected: receive_counts must "
                            "equal the counts that the others send",
                            ranks.rank_of(receive.source), came, expected));
}

void ByMpi::finish(const Operation& operation, int size) {
  const Tensor& result = staged_output_.defined() ? staged_output_ : operation.output;
  if (operation.op == ReduceOp::avg && result.defined()) scale(result, 1.0 / size);
  if (!staged_output_.defined()) return;
  operation.output.copy_from(staged_output_.to(operation.output.dtype()));
}

}  // namespace lockstep
