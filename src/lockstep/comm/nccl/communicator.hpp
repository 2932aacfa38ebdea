#pragma once
#include <chrono>
#include <string>

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Throws CommError naming the call if it did not succeed.
void check_cuda(cudaError_t status, const char* call);

/// Throws InputError on every rank unless each has its device. Collective over `control`.
void expect_gpus(ProcessGroup& control, Device device);

/// Rank 0's new unique ID on every rank. Collective over `control`.
[[nodiscard]] ncclUniqueId exchange_unique_id(ProcessGroup& control);

/// An NCCL communicator that never blocks the host for longer than its deadline, with a stream.
class NcclCommunicator {
 public:
  /// Collective over `control`.
  NcclCommunicator(ProcessGroup& control, Device device, std::chrono::milliseconds timeout);
  /// Local: aborts what is in flight, unless close() came first.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] ncclComm_t get() const noexcept { return comm_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept { return timeout_; }

  /// After a call: waits until NCCL has taken it (within a batch, which is taken as a whole: not).
  /// Throws TimeoutError at the deadline, CommError if it failed; both abort the communicator.
  void settle(ncclResult_t status, const char* call);
  /// Calls between these start together. May be nested.
  void begin_batch();
  void end_batch();
  /// Throws CommError if something went wrong since.
  void expect_healthy();
  /// Gives up: nothing of this communicator moves any more.
  void abort(const std::string& reason) noexcept;
  /// Throws CommError if it was aborted.
  void expect_open() const;
  /// Frees it. Collective.
  void close();

 private:
  void use_device() const;

  std::string speaker_;
  Device device_;
  std::chrono::milliseconds timeout_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  int batches_ = 0;     // begun and not ended
  std::string reason_;  // why it was aborted
};

}  // namespace lockstep
