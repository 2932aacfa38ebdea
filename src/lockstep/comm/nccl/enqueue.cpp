#include <lockstep/comm/nccl/enqueue.hpp>

#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep {
namespace {

using Kind = Operation::Kind;

/// The NCCL calls of one operation.
class Enqueuer {
 public:
  Enqueuer(NcclCommunicator& communicator, const Operation& operation, const Stream& stream,
           int rank, int size)
      : communicator_(communicator),
        api_(communicator.api()),
        operation_(operation),
        stream_(stream.handle()),
        rank_(rank),
        size_(size) {}

  void run() {
    const Tensor &input = operation_.input, &output = operation_.output;
    const DType dtype = (input.defined() ? input : output).dtype();
    const ReduceOp op = operation_.op;
    const auto comm = communicator_.get();
    const bool equal = operation_.input_counts.empty() && operation_.output_counts.empty();
    switch (operation_.kind) {
      case Kind::all_reduce:
        return expect(
            api_.all_reduce(input.data(), output.data(), input.numel(), dtype, op, comm, stream_),
            "ncclAllReduce");
      case Kind::reduce:
        return expect(api_.reduce(input.data(), output.data(), input.numel(), dtype, op,
                                  operation_.root, comm, stream_),
                      "ncclReduce");
      case Kind::broadcast:
        return expect(api_.broadcast(input.data(), output.data(), input.numel(), dtype,
                                     operation_.root, comm, stream_),
                      "ncclBroadcast");
      case Kind::all_gather:
        if (!equal) return all_gather_v();
        return expect(
            api_.all_gather(input.data(), output.data(), input.numel(), dtype, comm, stream_),
            "ncclAllGather");
      case Kind::reduce_scatter:
        if (!equal) return reduce_scatter_v();
        return expect(api_.reduce_scatter(input.data(), output.data(), output.numel(), dtype, op,
                                          comm, stream_),
                      "ncclReduceScatter");
      case Kind::gather:
        return gather();
      case Kind::scatter:
        return scatter();
      case Kind::all_to_all:
        return all_to_all();
      case Kind::send:
        return send(input, {0, input.numel()}, operation_.root);
      case Kind::receive:
        return receive(output, {0, output.numel()}, operation_.root);
      case Kind::barrier:
        return;
    }
  }

 private:
  void expect(NcclStatus status, const char* call) { communicator_.expect_accepted(status, call); }

  [[nodiscard]] Block in(int rank) const { return input_block(operation_, size_, rank); }
  [[nodiscard]] Block out(int rank) const { return output_block(operation_, size_, rank); }

  void send(const Tensor& t, Block block, int peer) {
    if (block.count == 0) return;
    expect(api_.send(address_of(t, block.begin), block.count, t.dtype(), peer, communicator_.get(),
                     stream_),
           "ncclSend");
  }
  void receive(const Tensor& t, Block block, int peer) {
    if (block.count == 0) return;
    expect(api_.receive(address_of(t, block.begin), block.count, t.dtype(), peer,
                        communicator_.get(), stream_),
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
    const Tensor& input = operation_.input;
    for (int r = 0; r < size_; ++r) {
      const Block block = in(r);
      if (block.count == 0) continue;
      expect(api_.reduce(address_of(input, block.begin),
                         rank_ == r ? operation_.output.data() : nullptr, block.count,
                         input.dtype(), operation_.op, r, communicator_.get(), stream_),
             "ncclReduce");
    }
  }

  NcclCommunicator& communicator_;
  NcclApi& api_;
  const Operation& operation_;
  NcclApi::Stream stream_;
  int rank_, size_;
};

}  // namespace

bool nccl_reduces(const Operation& operation) noexcept {
  return operation.op != ReduceOp::band && operation.op != ReduceOp::bor &&
         operation.op != ReduceOp::bxor;
}

void enqueue(NcclCommunicator& communicator, const Operation& operation, const Stream& stream,
             int rank, int size) {
  Enqueuer(communicator, operation, stream, rank, size).run();
}

void enqueue_mean(const Operation& operation, const Stream& stream, int size) {
  const Tensor& output = operation.output;
  if (!operation.reduces() || operation.op != ReduceOp::avg) return;
  if (!output.defined() || output.numel() == 0) return;
  const StreamGuard there(stream);
  const double factor = 1.0 / size;
  if (output.dtype() == DType::f32 || output.dtype() == DType::f64) return scale(output, factor);
  const Tensor wide = output.to(DType::f32);
  scale(wide, factor);
  convert(wide, output);
}

}  // namespace lockstep
