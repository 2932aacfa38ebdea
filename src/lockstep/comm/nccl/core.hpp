#pragma once
#include <memory>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/engine/group_core.hpp>
#include <lockstep/comm/nccl/communicator.hpp>
#include <lockstep/comm/nccl/queue.hpp>

namespace lockstep {

/// The core of a group whose collectives NCCL carries out. The process's engine moves it on too, so
/// that it is its watchdog: it looks for errors and deadlines while the host waits for the device.
class NcclCore final : public GroupCore {
 public:
  /// Collective over `control`.
  static IntrusivePtr<NcclCore> make(std::shared_ptr<NcclApi> api,
                                     std::shared_ptr<ProcessGroup> control, Device device,
                                     const GroupOptions& options);

  void begin_batch();
  void end_batch();
  /// Blocks the host until the current stream has done what it was given, for `operation`.
  void await_stream(const Operation& operation);
  /// Waits for what is in flight on the device, then for every rank to have done so; frees the
  /// communicator and closes the control group. Collective.
  void close();
  /// Its group is gone. Local: what is in flight goes on, with its tensors, and the communicator is
  /// freed once nothing is.
  void leave() noexcept;

  /// For its operations:
  [[nodiscard]] ProcessGroup& control() noexcept { return *control_; }
  [[nodiscard]] ProcessGroup& messages() noexcept { return *messages_; }
  [[nodiscard]] NcclCommunicator& communicator() noexcept { return communicator_; }
  [[nodiscard]] NcclQueue& queue() noexcept { return queue_; }
  /// Whether this thread may use the control group.
  [[nodiscard]] bool may_communicate() const noexcept;
  /// f(), with its thread on the group's device. Throws OperationFailure where CUDA or NCCL fail.
  template <class F>
  auto on_device(const F& f) {
    try {
      const DeviceScope there(communicator_.api(), communicator_.device().index);
      return f();
    } catch (const GpuError& error) {
      throw OperationFailure(OperationFailure::Kind::transport, error.what());
    }
  }

 private:
  NcclCore(std::shared_ptr<NcclApi> api, std::shared_ptr<ProcessGroup> control, Device device,
           const GroupOptions& options);
  ~NcclCore() override = default;

  [[nodiscard]] IntrusivePtr<InFlight> make(Operation&& operation) override;
  [[nodiscard]] bool reaches(Device /*device*/) const noexcept override { return true; }
  [[nodiscard]] std::string missing_ranks(const InFlight& work) const override;
  void spread_failure(const std::string& reason) noexcept override;
  /// Nothing is in flight any more, or never will be over.
  void end() noexcept;
  static void end_those_left() noexcept;

  std::shared_ptr<ProcessGroup> control_;   // host tensors, and whether calls agree
  std::shared_ptr<ProcessGroup> messages_;  // the same ranks: lengths of messages, other calls
  NcclCommunicator communicator_;
  NcclQueue queue_;
  bool threads_may_communicate_;
};

}  // namespace lockstep
