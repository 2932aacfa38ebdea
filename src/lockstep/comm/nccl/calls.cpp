#include <lockstep/comm/nccl/calls.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
    case DType::boolean:
      return ncclUint8;
  }
  return ncclUint8;
}

ncclRedOp_t nccl_op(ReduceOp op, DType dtype) {
  const bool logical = dtype == DType::boolean;  // elements are 0 or 1
  switch (op) {
    case ReduceOp::avg:
      return ncclAvg;
    case ReduceOp::product:
      return logical ? ncclMin : ncclProd;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
    default:
      return logical ? ncclMax : ncclSum;
  }
}

/// One operation's calls.
class Enqueuer {
 public:
  Enqueuer(NcclCommunicator& communicator, const Operation& operation, int rank, int size)
      : communicator_(communicator), operation_(operation), rank_(rank), size_(size) {}

  void run() {
    const Tensor &input = operation_.input, &output = operation_.output;
    const Tensor& any = input.defined() ? input : output;
    const auto type = nccl_type(any.dtype());
    const auto op = nccl_op(operation_.op, any.dtype());
    const auto comm = communicator_.get();
    const auto stream = communicator_.stream();
    const auto count = static_cast<std::size_t>(input.defined() ? input.numel() : 0);
    const bool equal = operation_.input_counts.empty() && operation_.output_counts.empty();
    switch (operation_.kind) {
      case Kind::all_reduce:
        return settle(ncclAllReduce(input.data(), output.data(), count, type, op, comm, stream),
                      "ncclAllReduce");
      case Kind::reduce:
        return settle(
            ncclReduce(input.data(), output.data(), count, type, op, operation_.root, comm, stream),
            "ncclReduce");
      case Kind::broadcast:
        return settle(
            ncclBroadcast(input.data(), output.data(), count, type, operation_.root, comm, stream),
            "ncclBroadcast");
      case Kind::all_gather:
        if (!equal) return grouped(&Enqueuer::all_gather_v);
        return settle(ncclAllGather(input.data(), output.data(), count, type, comm, stream),
                      "ncclAllGather");
      case Kind::reduce_scatter:
        if (!equal) return grouped(&Enqueuer::reduce_scatter_v);
        return settle(
            ncclReduceScatter(input.data(), output.data(), static_cast<std::size_t>(output.numel()),
                              type, op, comm, stream),
            "ncclReduceScatter");
      case Kind::gather:
        return grouped(&Enqueuer::gather);
      case Kind::scatter:
        return grouped(&Enqueuer::scatter);
      case Kind::all_to_all:
        return grouped(&Enqueuer::all_to_all);
      case Kind::send:
        return send(input, {0, input.numel()}, operation_.root);
      case Kind::receive:
        return receive(output, {0, output.numel()}, operation_.root);
      case Kind::barrier:
        return;
    }
  }

 private:
  void settle(ncclResult_t status, const char* call) { communicator_.settle(status, call); }

  void grouped(void (Enqueuer::*calls)()) {
    communicator_.begin_batch();
    (this->*calls)();
    communicator_.end_batch();
  }

  [[nodiscard]] Block in(int rank) const {
    return block_of(operation_.input_counts, operation_.input.numel(), size_, rank);
  }
  [[nodiscard]] Block out(int rank) const {
    return block_of(operation_.output_counts, operation_.output.numel(), size_, rank);
  }

  void send(const Tensor& t, Block block, int peer) {
    settle(ncclSend(address_of(t, block.begin), static_cast<std::size_t>(block.count),
                    nccl_type(t.dtype()), peer, communicator_.get(), communicator_.stream()),
           "ncclSend");
  }
  void receive(const Tensor& t, Block block, int peer) {
    settle(ncclRecv(address_of(t, block.begin), static_cast<std::size_t>(block.count),
                    nccl_type(t.dtype()), peer, communicator_.get(), communicator_.stream()),
           "ncclRecv");
  }

  void all_gather_v() {
    const Tensor& input = operation_.input;
    for (int r = 0; r < size_; ++r) {
      send(input, {0, input.numel()}, r);
      receive(operation_.output, out(r), r);
    }
  }
  void gather() {
    const Tensor& input = operation_.input;
    send(input, {0, input.numel()}, operation_.root);
    if (rank_ != operation_.root) return;
    for (int r = 0; r < size_; ++r) receive(operation_.output, out(r), r);
  }
  void scatter() {
    const Tensor& output = operation_.output;
    if (rank_ == operation_.root) {
      for (int r = 0; r < size_; ++r) send(operation_.input, in(r), r);
    }
    receive(output, {0, output.numel()}, operation_.root);
  }
  void all_to_all() {
    for (int r = 0; r < size_; ++r) {
      send(operation_.input, in(r), r);
      receive(operation_.output, out(r), r);
    }
  }
  void reduce_scatter_v() {
    const DType dtype = operation_.input.dtype();
    for (int r = 0; r < size_; ++r) {
      const Block block = in(r);
      settle(
          ncclReduce(address_of(operation_.input, block.begin),
                     rank_ == r ? operation_.output.data() : nullptr,
                     static_cast<std::size_t>(block.count), nccl_type(dtype),
                     nccl_op(operation_.op, dtype), r, communicator_.get(), communicator_.stream()),
          "ncclReduce");
    }
  }

  NcclCommunicator& communicator_;
  const Operation& operation_;
  int rank_, size_;
};

}  // namespace

bool nccl_reduces(const Operation& operation) noexcept {
  return operation.op != ReduceOp::band && operation.op != ReduceOp::bor &&
         operation.op != ReduceOp::bxor;
}

void enqueue(NcclCommunicator& communicator, const Operation& operation, int rank, int size) {
  Enqueuer(communicator, operation, rank, size).run();
}

}  // namespace lockstep
