#pragma once
#include <chrono>
#include <future>
#include <memory>
#include <string>

#include <lockstep/base/failure.hpp>
#include <lockstep/comm/nccl/api.hpp>
#include <lockstep/comm/nccl/device_scope.hpp>
#include <lockstep/comm/nccl/events.hpp>
#include <lockstep/comm/nccl/launch_order.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Throws InputError on every rank unless each has its device. Collective over `control`.
void expect_gpus(NcclApi& api, ProcessGroup& control, Device device);

/// Rank 0's new unique ID on every rank. Collective over `control`. Throws CommError.
[[nodiscard]] NcclId exchange_unique_id(NcclApi& api, ProcessGroup& control);

/// An NCCL communicator, on the device's stream for all of them, and events. No call here blocks
/// the host beyond the deadline.
class NcclCommunicator {
 public:
  /// Collective over `control`. Throws TimeoutError, CommError.
  NcclCommunicator(std::shared_ptr<NcclApi> api, ProcessGroup& control, Device device,
                   std::shared_ptr<LaunchOrder> order, std::chrono::milliseconds timeout);
  /// Local: abort(), unless close() came first.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] NcclApi& api() const noexcept { return *api_; }
  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] NcclApi::Comm get() const noexcept { return comm_; }
  [[nodiscard]] NcclApi::Stream stream() const noexcept { return stream_; }
  [[nodiscard]] EventPool& events() noexcept { return events_; }

  /// Whether the host's part of what was called is done. Throws GpuError if anything has failed.
  [[nodiscard]] bool is_settled();
  /// Throws GpuError unless it succeeded or is in progress.
  void expect_accepted(NcclStatus status, const char* call);
  /// Finalizes and frees it. Nothing may be in flight. Throws TimeoutError at the deadline,
  /// GpuError.
  void close();
  /// Gives up: kernels in flight end. Local, and returns at once: a thread does it, as NCCL may
  /// wait for the device.
  void abort() noexcept;

 private:
  void settle(const char* call);
  /// abort(), and waits for it a while.
  [[nodiscard]] bool give_up() noexcept;
  void start_to_free(NcclStatus (NcclApi::*call)(NcclApi::Comm));
  [[nodiscard]] bool is_freed_within(std::chrono::milliseconds patience) const;

  std::shared_ptr<NcclApi> api_;
  Device device_;
  RankOfError rank_;
  std::string rank_name_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<LaunchOrder> order_;
  NcclApi::Comm comm_ = nullptr;
  NcclApi::Stream stream_ = nullptr;
  EventPool events_;
  std::future<void> freed_;  // by a thread that is left behind if NCCL does not return
};

}  // namespace lockstep
