#include <lockstep/comm/mpi_work.hpp>

#include <fmt/format.h>
#include <sched.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/comm/mpi_status.hpp>
#include <lockstep/tensor/kernels/elementwise.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

// Polls before the first yield: about as long as a small all-reduce takes, so that it never pays
// for a system call, while ranks that outnumber the cores soon make room for each other.
constexpr int spins = 100;

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

bool is_half(const Tensor& t) {
  return t.defined() && (t.dtype() == DType::f16 || t.dtype() == DType::bf16);
}

bool on_device(const Tensor& t) { return t.defined() && t.device().type != DeviceType::host; }

/// Some of the memory of `a` is also `b`'s.
bool overlap(const Tensor& a, const Tensor& b) {
  const auto *x = static_cast<const std::byte*>(a.data()),
             *y = static_cast<const std::byte*>(b.data());
  return x < y + b.bytes() && y < x + a.bytes();
}

/// `t` on the host, in `dtype`.
Tensor on_host(const Tensor& t, DType dtype) {
  if (!on_device(t)) return t.to(dtype);
  const auto copy = Tensor::empty(t.shape(), t.dtype());
  copy.copy_from(t);
  return copy.to(dtype);
}

}  // namespace

bool MpiWork::stages() const {
  const Tensor &input = operation_.input, &output = operation_.output;
  if (on_device(input) || on_device(output)) return true;
  if (!reduces(operation_.kind)) return false;
  // MPI has no 16-bit floats; and it does not take a reduce_scatter into its own input.
  return is_half(input) || (operation_.kind == Kind::reduce_scatter && overlap(input, output));
}

void MpiWork::stage() {
  const Tensor &input = operation_.input, &output = operation_.output;
  const auto wire_dtype = [&](const Tensor& t) {
    return reduces(operation_.kind) && is_half(t) ? DType::f32 : t.dtype();
  };
  if (input.defined()) staged_input_ = on_host(input, wire_dtype(input));
  if (!output.defined()) return;
  staged_output_ = operation_.in_place() && operation_.kind == Kind::broadcast
                       ? staged_input_
                       : Tensor::empty(output.shape(), wire_dtype(output));
}

int MpiWork::start() {
  const MpiPlace place{core_->comm_, core_->message_comm_, core_->rank_, core_->size_,
                       core_->options_.max_count};
  if (!stages()) return start_calls(operation_, place, calls_);
  stage();
  Operation staged = operation_;
  staged.input = staged_input_;
  staged.output = staged_output_;
  return start_calls(staged, place, calls_);
}

int MpiWork::advance() {
  int over = 0;
  int status = MPI_SUCCESS;
  if (operation_.kind == Kind::receive) {
    status = advance_receive(&over);
  } else if (operation_.kind == Kind::all_to_all && calls_.requests.count() > 1) {
    status = advance_exchange(&over);
  } else {
    status =
        MPI_Testall(calls_.requests.count(), calls_.requests.data(), &over, MPI_STATUSES_IGNORE);
  }
  if (status != MPI_SUCCESS || !over) return status;
  finish();
  state_ = State::done;
  return MPI_SUCCESS;
}

int MpiWork::advance_receive(int* over) {
  MPI_Status message;
  const int status = MPI_Test(calls_.requests.data(), over, &message);
  const auto expected = static_cast<MPI_Count>(operation_.output.bytes());
  MPI_Count received = expected;
  if (status == MPI_SUCCESS && *over) {
    source_ = message.MPI_SOURCE;
    MPI_Get_elements_x(&message, MPI_BYTE, &received);
  }
  if (received != expected || (status != MPI_SUCCESS && is_truncation(status))) {
    core_->fail(*this, fmt::format("a message of {} came, which does not fill it",
                                   status == MPI_SUCCESS ? fmt::format("{} bytes", received)
                                                         : "more bytes"));
  }
  return status;
}

int MpiWork::advance_exchange(int* over) {
  std::vector<MPI_Status> messages(static_cast<std::size_t>(calls_.requests.count()));
  const int status =
      MPI_Testall(calls_.requests.count(), calls_.requests.data(), over, messages.data());
  if (status == MPI_SUCCESS && !*over) return status;
  const auto element = static_cast<std::int64_t>(size_of(operation_.output.dtype()));
  for (int step = 1; step < core_->size_; ++step) {  // the receives come first
    const int from = (core_->rank_ + core_->size_ - step) % core_->size_;
    MPI_Status& message = messages[static_cast<std::size_t>(step - 1)];
    const auto expected =
        block_of(operation_.output_counts, operation_.output.numel(), core_->size_, from).count;
    MPI_Count received = expected * element;
    const bool longer = status == MPI_ERR_IN_STATUS && is_truncation(message.MPI_ERROR);
    if (status == MPI_SUCCESS) MPI_Get_elements_x(&message, MPI_BYTE, &received);
    if (!longer && received == expected * element) continue;
    core_->fail(*this,
                fmt::format("rank {} sent {} elements where {} were expected: receive_counts must "
                            "be what the others send",
                            from, longer ? "more" : std::to_string(received / element), expected));
  }
  return status;
}

void MpiWork::finish() {
  const Tensor& result = staged_output_.defined() ? staged_output_ : operation_.output;
  if (operation_.op == ReduceOp::avg && result.defined()) scale(result, 1.0 / core_->size_);
  if (!staged_output_.defined()) return;
  operation_.output.copy_from(staged_output_.to(operation_.output.dtype()));
}

bool MpiWork::poll() {
  if (state_ == State::running) {
    core_->expect_callable();
    const int status = advance();
    if (status != MPI_SUCCESS) core_->mpi_failed(*this, status);
    if (state_ == State::done) core_->delist(this);
  }
  if (state_ == State::failed) core_->expect_callable();  // throws why
  return state_ == State::done;
}

void MpiWork::wait() {
  for (int spin = 0; spin < spins; ++spin) {
    if (poll()) return;
  }
  const auto start = Clock::now();
  while (!poll()) {
    if (Clock::now() - start > core_->options_.timeout) {
      core_->time_out(*this, seconds_since(start));
    }
    sched_yield();
  }
}

void MpiWork::release() noexcept { ObjectPool<MpiWork>::instance().recycle(this); }

}  // namespace lockstep
