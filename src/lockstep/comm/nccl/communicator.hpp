#pragma once
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include <lockstep/base/failure.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/nccl/api.hpp>
#include <lockstep/comm/nccl/events.hpp>
#include <lockstep/comm/nccl/launch_order.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/tensor/runtime/own_stream.hpp>

namespace lockstep {

/// The order of launches on this rank's device. Throws InputError on every rank unless each has its
/// device, and on it no groups with whose collectives this contract's cannot be ordered. Collective
/// over `control`.
[[nodiscard]] std::shared_ptr<LaunchOrder> order_of_launches(const NcclApi& api,
                                                             ProcessGroup& control, Device device,
                                                             Contract contract);

/// Rank 0's new unique ID on every rank. Collective over `control`. Throws CommError.
[[nodiscard]] NcclId exchange_unique_id(NcclApi& api, ProcessGroup& control);

/// An NCCL communicator, its streams and events. No call here blocks the host beyond the deadline.
class NcclCommunicator {
 public:
  /// Collective over `control`. Throws TimeoutError, CommError.
  NcclCommunicator(std::shared_ptr<NcclApi> api, ProcessGroup& control, Device device,
                   std::shared_ptr<LaunchOrder> order, std::chrono::milliseconds timeout);
  /// The communicator of the ranks of `parent` that pass the same colour, which are those of
  /// `control`, in its order. Nothing may be in flight on the parent, on any rank. Collective over
  /// the parent, with leave_out() on its other ranks.
  NcclCommunicator(NcclCommunicator& parent, int colour, ProcessGroup& control);
  /// This rank's part in such a split where it is in no part of it.
  void leave_out();
  /// Local: abort(), unless close() or destroy() came first. Waits for it for a while.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] NcclApi& api() const noexcept { return *api_; }
  [[nodiscard]] const std::shared_ptr<NcclApi>& shared_api() const noexcept { return api_; }
  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] NcclApi::Comm get() const noexcept { return comm_; }
  /// The device's stream for the collectives of all groups.
  [[nodiscard]] const Stream& collectives() const noexcept { return order_->stream(); }
  /// The communicator's own stream for messages. Only their two ranks know of them, so they have no
  /// place among the collectives: on one stream with these, two ranks could begin with either, and
  /// wait for each other for ever. NCCL keeps the order of one communicator's calls on all streams.
  /// Two ranks may begin with either where the device runs both kernels at once: it does unless its
  /// streams share a queue (CUDA_DEVICE_MAX_CONNECTIONS=1).
  [[nodiscard]] const Stream& messages();
  [[nodiscard]] EventPool& events() noexcept { return events_; }

  /// True if the host's part of the call has completed. Throws NcclError if anything has failed.
  [[nodiscard]] bool is_settled() { return is_settled(comm_); }
  /// Throws NcclError unless it succeeded or is in progress.
  void expect_accepted(NcclStatus status, const char* call) {
    expect_accepted(status, call, comm_);
  }
  /// Finalizes and frees it. Nothing may be in flight. Throws TimeoutError at the deadline,
  /// NcclError.
  void close();
  /// Frees it where nothing is in flight on this rank. Local, and returns at once: a thread does
  /// it, as NCCL may wait for other ranks of the node, which may still read this one's buffers.
  void destroy() noexcept;
  /// Gives up: kernels in flight end. Local, and returns at once: a thread does it, as NCCL may
  /// wait for the device.
  void abort() noexcept;

 private:
  NcclCommunicator(std::shared_ptr<NcclApi> api, std::shared_ptr<LaunchOrder> order,
                   ProcessGroup& control, Device device, std::chrono::milliseconds timeout);
  /// make(cell), which has NCCL write a new communicator there until `settling` is settled, or, for
  /// nullptr, the new one is.
  template <class F>
  [[nodiscard]] NcclApi::Comm made(const char* call, NcclApi::Comm settling, const F& make);
  [[nodiscard]] bool is_settled(NcclApi::Comm comm);
  void expect_accepted(NcclStatus status, const char* call, NcclApi::Comm comm);
  void settle(NcclApi::Comm comm, const char* call);
  void start_to_free(NcclStatus (NcclApi::*call)(NcclApi::Comm));
  void try_to_free(NcclStatus (NcclApi::*call)(NcclApi::Comm)) noexcept;
  [[nodiscard]] bool is_freed_within(std::chrono::milliseconds patience) const;

  std::shared_ptr<NcclApi> api_;
  std::shared_ptr<LaunchOrder> order_;
  Device device_;
  RankOfError rank_;
  std::string rank_name_;
  std::chrono::milliseconds timeout_, patience_;
  NcclApi::Comm comm_ = nullptr;
  std::optional<OwnStream> messages_;  // made when it is used
  EventPool events_;
  std::future<void> freed_;  // by a thread that is left behind if NCCL does not return
};

}  // namespace lockstep
