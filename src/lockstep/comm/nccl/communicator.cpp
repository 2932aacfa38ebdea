#include <lockstep/comm/nccl/communicator.hpp>

#include <fmt/format.h>
#include <sched.h>

#include <cstring>
#include <utility>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {

void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw CommError(fmt::format("{} failed: {}", call, cudaGetErrorString(status)));
}

void expect_gpus(ProcessGroup& control, Device device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  std::string finding;
  if (status != cudaSuccess) {
    finding = cudaGetErrorString(status);
  } else if (device.type != DeviceType::cuda || device.index < 0 || device.index >= count) {
    finding = fmt::format("it has {} of them", count);
  }
  if (!finding.empty()) finding = fmt::format("no device {}: {}", to_string(device), finding);
  if (const auto failure = first_failure(control, finding)) {
    throw InputError(
        fmt::format("the nccl backend needs a GPU on every rank, but rank {} ({}) has {}. Ask the "
                    "launcher for GPUs (Slurm: --gpus-per-task=1), or use the mpi backend",
                    failure->rank, failure->host, failure->message));
  }
}

ncclUniqueId exchange_unique_id(ProcessGroup& control) {
  ncclUniqueId id{};
  std::string bytes;
  if (control.rank() == 0 && ncclGetUniqueId(&id) == ncclSuccess) {
    bytes.assign(id.internal, sizeof id.internal);
  }
  bytes = broadcast_object(control, bytes, 0);
  if (bytes.size() != sizeof id.internal) {
    throw CommError(
        "NCCL could not make a unique ID on rank 0: look at its network interfaces "
        "(NCCL_SOCKET_IFNAME, NCCL_DEBUG=INFO)");
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

NcclCommunicator::NcclCommunicator(ProcessGroup& control, Device device,
                                   std::chrono::milliseconds timeout)
    : speaker_(fmt::format("rank {} of {} ({}, {})", control.rank(), control.size(), host_name(),
                           to_string(device))),
      device_(device),
      timeout_(timeout) {
  const ncclUniqueId id = exchange_unique_id(control);
  use_device();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t status =
      ncclCommInitRankConfig(&comm_, control.size(), id, control.rank(), &config);
  settle(status, "ncclCommInitRankConfig");
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_) static_cast<void>(ncclCommAbort(comm_));
  if (stream_) static_cast<void>(cudaStreamDestroy(stream_));
}

void NcclCommunicator::use_device() const {
  check_cuda(cudaSetDevice(device_.index), "cudaSetDevice");
}

void NcclCommunicator::settle(ncclResult_t status, const char* call) {
  if (status == ncclInProgress && batches_ > 0) return;
  const auto start = Clock::now();
  while (status == ncclInProgress) {
    if (Clock::now() - start > timeout_) {
      const std::string failure = fmt::format(
          "{}: {} was not taken by NCCL within {:.1f} s: at least one rank has not come to it",
          speaker_, call, seconds_since(start));
      abort(failure);
      throw TimeoutError(failure + ". Look at the other ranks; NCCL_DEBUG=INFO says more.");
    }
    sched_yield();
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &status);
    if (asked != ncclSuccess) status = asked;
  }
  if (status == ncclSuccess) return;
  const std::string failure =
      fmt::format("{}: {} failed: {}", speaker_, call, ncclGetErrorString(status));
  abort(failure);
  throw CommError(failure + ". NCCL_DEBUG=INFO says more; the job must be restarted.");
}

void NcclCommunicator::begin_batch() {
  expect_open();
  settle(ncclGroupStart(), "ncclGroupStart");
  ++batches_;
}

void NcclCommunicator::end_batch() {
  --batches_;
  settle(ncclGroupEnd(), "ncclGroupEnd");
}

void NcclCommunicator::expect_healthy() {
  expect_open();
  ncclResult_t status = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &status);
  if (asked != ncclSuccess) status = asked;
  if (status != ncclSuccess && status != ncclInProgress) settle(status, "an NCCL operation");
}

void NcclCommunicator::abort(const std::string& reason) noexcept {
  if (reason_.empty()) reason_ = reason;
  if (comm_) static_cast<void>(ncclCommAbort(std::exchange(comm_, nullptr)));
}

void NcclCommunicator::expect_open() const {
  if (comm_) return;
  throw CommError(fmt::format("{}: this nccl group is unusable, because {}", speaker_,
                              reason_.empty() ? "it was closed" : "it failed earlier: " + reason_));
}

void NcclCommunicator::close() {
  if (!comm_) return;
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  settle(ncclCommFinalize(comm_), "ncclCommFinalize");
  static_cast<void>(ncclCommDestroy(std::exchange(comm_, nullptr)));
}

}  // namespace lockstep
