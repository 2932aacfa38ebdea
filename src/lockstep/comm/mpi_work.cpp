#include <lockstep/comm/mpi_work.hpp>

#include <sched.h>

#include <algorithm>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/tensor/kernels/elementwise.hpp>

namespace lockstep {
namespace {

// Polls before the first yield: about as long as a small all-reduce takes, so that it never pays
// for a system call, while ranks that outnumber the cores soon make room for each other.
constexpr int spins = 100;

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    default:
      return MPI_UINT8_T;
  }
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    default:
      return MPI_SUM;  // avg divides once, at the end
  }
}

/// What is sent by value of elements (all_reduce) or as bytes (the others), in such units.
std::int64_t units_of(const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::all_reduce:
      return operation.output.numel();
    case Operation::Kind::broadcast:
      return static_cast<std::int64_t>(operation.output.bytes());
    case Operation::Kind::all_gather:
      return static_cast<std::int64_t>(operation.input.bytes());
    case Operation::Kind::barrier:
      return 0;
  }
  return 0;
}

std::byte* address(const Tensor& t, std::int64_t offset_bytes) {
  return static_cast<std::byte*>(t.data()) + offset_bytes;
}

}  // namespace

int MpiWork::start() {
  if (operation_.kind == Operation::Kind::barrier) {
    const int status = MPI_Ibarrier(core_->comm_, &requests_[0]);
    if (status == MPI_SUCCESS) parts_ = 1;
    return status;
  }
  const std::int64_t units = units_of(operation_);
  if (units > part_elements * max_parts) {
    throw ShapeError(describe(operation_) + " is larger than one operation may be (2^36 elements)");
  }
  for (std::int64_t begin = 0; begin < units; begin += part_elements) {
    const std::int64_t count = std::min(part_elements, units - begin);
    const int status = start_part(begin, count, &requests_[static_cast<std::size_t>(parts_)]);
    if (status != MPI_SUCCESS) return status;
    ++parts_;
  }
  return MPI_SUCCESS;
}

int MpiWork::start_part(std::int64_t begin, std::int64_t count, MPI_Request* request) {
  const int n = static_cast<int>(count);  // at most part_elements
  const Tensor& output = operation_.output;
  switch (operation_.kind) {
    case Operation::Kind::all_reduce: {
      const auto element = static_cast<std::int64_t>(size_of(output.dtype()));
      return MPI_Iallreduce(MPI_IN_PLACE, address(output, begin * element), n,
                            mpi_type(output.dtype()), mpi_op(operation_.op), core_->comm_, request);
    }
    case Operation::Kind::broadcast:
      return MPI_Ibcast(address(output, begin), n, MPI_BYTE, operation_.root, core_->comm_,
                        request);
    case Operation::Kind::all_gather:
      return gather_part(begin, n, request);
    case Operation::Kind::barrier:
      break;
  }
  return MPI_ERR_INTERN;
}

int MpiWork::gather_part(std::int64_t begin, int count, MPI_Request* request) {
  const auto block = static_cast<std::int64_t>(operation_.input.bytes());
  const bool in_place = operation_.input.data() == address(operation_.output, core_->rank_ * block);
  void* target = address(operation_.output, begin);
  if (count == block) {
    return MPI_Iallgather(in_place ? MPI_IN_PLACE : operation_.input.data(), count, MPI_BYTE,
                          target, count, MPI_BYTE, core_->comm_, request);
  }
  // A part of every rank's block: `count` bytes, one block apart. MPI keeps the type alive until
  // the operation is over.
  MPI_Datatype part = MPI_DATATYPE_NULL;
  MPI_Datatype spaced = MPI_DATATYPE_NULL;
  int status = MPI_Type_contiguous(count, MPI_BYTE, &part);
  if (status == MPI_SUCCESS) status = MPI_Type_create_resized(part, 0, block, &spaced);
  if (status == MPI_SUCCESS) status = MPI_Type_commit(&spaced);
  if (status == MPI_SUCCESS) {
    status = MPI_Iallgather(in_place ? MPI_IN_PLACE : address(operation_.input, begin), count,
                            MPI_BYTE, target, 1, spaced, core_->comm_, request);
  }
  if (part != MPI_DATATYPE_NULL) MPI_Type_free(&part);
  if (spaced != MPI_DATATYPE_NULL) MPI_Type_free(&spaced);
  return status;
}

int MpiWork::advance() {
  int over = 0;
  const int status = MPI_Testall(parts_, requests_.data(), &over, MPI_STATUSES_IGNORE);
  if (status != MPI_SUCCESS || !over) return status;
  if (operation_.op == ReduceOp::avg) scale(operation_.output, 1.0 / core_->size_);
  state_ = State::done;
  return MPI_SUCCESS;
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
