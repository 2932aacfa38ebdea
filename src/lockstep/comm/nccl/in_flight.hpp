#pragma once
#include <optional>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/nccl/core.hpp>
#include <lockstep/comm/nccl/rendezvous.hpp>

namespace lockstep {

/// An operation on a device: its ranks agree, then NCCL gets it, in the order of the calls; it is
/// over when its mark in the stream is. A wait() ends when the current stream waits for that mark;
/// from then on the deadline is watched here, because the host may be inside a call that reads the
/// result. With Contract::late NCCL gets it at once, and it is over when its ranks agree too.
class NcclInFlight final : public InFlight {
 public:
  /// Marks the current stream's work so far: the input is ready after it. Throws DeviceError.
  NcclInFlight(NcclCore& core, Operation&& operation);
  ~NcclInFlight() override = default;

  [[nodiscard]] int source() const noexcept override {
    return operation().kind == Operation::Kind::receive ? operation().root : -1;
  }
  [[nodiscard]] std::string missing_ranks() const { return rendezvous_.awaited(); }

 private:
  friend class NcclQueue;

  [[nodiscard]] bool rendezvous(bool is_next) override;
  [[nodiscard]] Motion transfer() override;
  [[nodiscard]] bool order_stream() override;
  void release() noexcept override;

  template <class F>
  auto on_control(const F& f);
  [[nodiscard]] bool is_late() const noexcept {
    return core_.options().contract == Contract::late && !operation().is_message();
  }
  void launch();
  /// Launches operations that are ready, and checks those in NCCL.
  void look_at_device();
  /// Whether its ranks agree. Throws OperationFailure if a message's do not.
  [[nodiscard]] bool may_go();
  [[nodiscard]] bool is_over_on_device();

  NcclCore& core_;  // which the base class keeps alive
  NcclRendezvous rendezvous_;
  NcclHandshake handshake_;
  LaunchOrder::Place place_;  // of collectives that are compared
  Event input_ready_, done_;
  bool is_launched_ = false;
  bool on_stream_ = false;
  bool is_over_ = false;  // on the device
  std::optional<Clock::time_point> launched_at_;
  // Of the queue:
  NcclInFlight* after_ = nullptr;
  std::uint64_t batch_ = 0;
  NcclQueue::Lane lane_ = NcclQueue::collectives;
};

}  // namespace lockstep
