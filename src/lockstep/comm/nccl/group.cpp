#include <lockstep/comm/nccl_group.hpp>

#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/comm/call_record.hpp>
#include <lockstep/comm/nccl/calls.hpp>

namespace lockstep {
namespace {

// The stream that kernels run on: CUDA's default.
constexpr cudaStream_t compute_stream = nullptr;

/// A mark in a stream's queue.
class Event {
 public:
  Event() {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) {
    check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  void make_wait(cudaStream_t stream) {
    check_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }
  [[nodiscard]] bool is_over() {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    check_cuda(status, "cudaEventQuery");
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Whether all ranks' calls are equal: asked on the control group while NCCL works.
class Agreement {
 public:
  Agreement(ProcessGroup& control, const Operation& operation, Contract contract) {
    if (contract == Contract::off || operation.is_message()) return;
    mine_ = static_cast<std::int64_t>(fingerprint(operation, contract == Contract::full));
    largest_ = Tensor::empty({2}, DType::i64);
    const std::array<std::int64_t, 2> both{mine_, ~mine_};
    largest_.copy_from_host(std::span<const std::int64_t>(both));
    work_ = control.all_reduce(largest_, ReduceOp::max);
  }
  [[nodiscard]] bool test() { return work_.test(); }
  /// False if some rank's call is another.
  [[nodiscard]] bool holds() {
    work_.wait();
    if (!largest_.defined()) return true;
    const auto largest = largest_.to_vector<std::int64_t>();
    return largest[0] == mine_ && largest[1] == ~mine_;
  }

 private:
  std::int64_t mine_ = 0;
  Tensor largest_;
  Work work_;
};

/// One operation on the group's stream.
class NcclWork final : public WorkRecord {
 public:
  NcclWork(std::shared_ptr<NcclCommunicator> communicator, Agreement agreement, Operation operation)
      : communicator_(std::move(communicator)),
        agreement_(std::move(agreement)),
        operation_(std::move(operation)) {}
  ~NcclWork() override = default;

  void record() { done_.record(communicator_->stream()); }
  [[nodiscard]] bool is_over() { return done_.is_over(); }

  bool poll() override {
    communicator_->expect_healthy();
    if (!agreement_.test() || !done_.is_over()) return false;
    expect_agreement();
    return true;
  }
  void wait() override {
    expect_agreement();
    done_.make_wait(compute_stream);
  }
  void synchronize() override {
    expect_agreement();
    const auto start = Clock::now();
    while (!done_.is_over()) {
      communicator_->expect_healthy();
      if (Clock::now() - start > communicator_->timeout()) {
        const std::string failure = fmt::format("{} has not completed on the GPU after {:.1f} s",
                                                describe_fully(operation_), seconds_since(start));
        communicator_->abort(failure);
        throw TimeoutError(failure +
                           ": look at the other ranks for an error or a stopped process; "
                           "if they are only slow, raise the group's timeout.");
      }
      sched_yield();
    }
  }
  [[nodiscard]] int source() const noexcept override {
    return operation_.kind == Operation::Kind::receive ? operation_.root : -1;
  }

 private:
  void release() noexcept override { ObjectPool<NcclWork>::instance().recycle(this); }

  void expect_agreement() {
    communicator_->expect_open();
    if (agreement_.holds()) return;
    const std::string failure = fmt::format(
        "{}: another rank called something else: all ranks must make the same calls in "
        "the same order, with equal shapes, dtypes and operations",
        describe_fully(operation_));
    communicator_->abort(failure);
    throw CommError(failure);
  }

  std::shared_ptr<NcclCommunicator> communicator_;
  Agreement agreement_;
  Operation operation_;
  Event done_;
};

class NcclGroup final : public ProcessGroup {
 public:
  NcclGroup(std::shared_ptr<ProcessGroup> control, Device device, const GroupOptions& options)
      : control_(std::move(control)),
        device_(device),
        options_(options),
        communicator_(std::make_shared<NcclCommunicator>(*control_, device, options.timeout)) {}

  [[nodiscard]] int rank() const noexcept override { return control_->rank(); }
  [[nodiscard]] int size() const noexcept override { return control_->size(); }
  [[nodiscard]] const char* backend() const noexcept override { return "nccl"; }

  [[nodiscard]] std::shared_ptr<ProcessGroup> split(int colour, int key) override {
    auto part = control_->split(colour, key);
    if (!part) return nullptr;
    return std::make_shared<NcclGroup>(std::move(part), device_, options_);
  }

  void close() override {
    in_flight_.clear();
    communicator_->close();
    control_->close();
  }

 private:
  [[nodiscard]] Work start(Operation&& operation) override {
    communicator_->expect_open();
    if (operation.kind == Operation::Kind::barrier) return barrier_of_all();
    expect_fitting(operation);
    if (!nccl_reduces(operation)) return start_on_host(operation);
    operation.sequence = ++(operation.is_message() ? message_sequence_ : sequence_);
    std::erase_if(in_flight_, [](const auto& work) { return work->is_over(); });

    ready_.record(compute_stream);
    ready_.make_wait(communicator_->stream());
    enqueue(*communicator_, operation, rank(), size());
    Agreement agreement(*control_, operation, options_.contract);
    const IntrusivePtr<NcclWork> work(ObjectPool<NcclWork>::instance().make(
        communicator_, std::move(agreement), std::move(operation)));
    if (batching_) {
      batch_.push_back(work);
    } else {
      work->record();
      in_flight_.push_back(work);  // its tensors must live until the GPU is done
    }
    return Work(work);
  }

  void begin_batch() override {
    communicator_->begin_batch();
    batching_ = true;
  }
  void end_batch() override {
    batching_ = false;
    communicator_->end_batch();
    for (const auto& work : batch_) {
      work->record();
      in_flight_.push_back(work);
    }
    batch_.clear();
  }

  Work barrier_of_all() {
    for (const auto& work : in_flight_) work->synchronize();
    control_->barrier();
    return {};
  }

  /// What NCCL does not reduce goes through the host.
  Work start_on_host(const Operation& operation) {
    check_cuda(cudaStreamSynchronize(compute_stream), "cudaStreamSynchronize");
    const Tensor &input = operation.input, &output = operation.output;
    switch (operation.kind) {
      case Operation::Kind::reduce:
        return control_->reduce(input, output, operation.root, operation.op);
      case Operation::Kind::reduce_scatter:
        if (operation.input_counts.empty())
          return control_->reduce_scatter(input, output, operation.op);
        return control_->reduce_scatter_v(elements_of(input, {0, input.numel()}),
                                          elements_of(output, {0, output.numel()}),
                                          operation.input_counts, operation.op);
      default:
        return control_->all_reduce(input, output, operation.op);
    }
  }

  void expect_fitting(const Operation& operation) const {
    for (const Tensor* t : {&operation.input, &operation.output}) {
      if (!t->defined() || t->device() == device_) continue;
      throw ShapeError(fmt::format("{}: {} does not lie on {}, the device of this nccl group",
                                   name_of(operation.kind), describe(*t), to_string(device_)));
    }
    if (operation.is_message() && (operation.tag != 0 || operation.root == any_source)) {
      throw ShapeError(fmt::format(
          "{}: NCCL knows neither tags nor any_source; use the mpi group for such messages",
          name_of(operation.kind)));
    }
  }

  std::shared_ptr<ProcessGroup> control_;
  Device device_;
  GroupOptions options_;
  std::shared_ptr<NcclCommunicator> communicator_;
  Event ready_;  // what the compute stream had been given when an operation was started
  bool batching_ = false;
  std::vector<IntrusivePtr<NcclWork>> batch_, in_flight_;
  std::uint64_t sequence_ = 0, message_sequence_ = 0;
};

}  // namespace

std::shared_ptr<ProcessGroup> make_nccl_group(std::shared_ptr<ProcessGroup> control, Device device,
                                              const GroupOptions& options) {
  expect_gpus(*control, device);
  return std::make_shared<NcclGroup>(std::move(control), device, options);
}

}  // namespace lockstep
