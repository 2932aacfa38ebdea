#pragma once
#include <memory>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/engine/group_core.hpp>
#include <lockstep/comm/nccl/communicator.hpp>
#include <lockstep/comm/nccl/launch_order.hpp>
#include <lockstep/comm/nccl/queue.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep {

/// The core of a group whose collectives NCCL carries out. The process's engine moves it on too, so
/// that it is its watchdog: it looks for errors and deadlines while the host waits for the device.
class NcclCore final : public GroupCore {
 public:
  /// Collective over `control`.
  static IntrusivePtr<NcclCore> make(std::shared_ptr<NcclApi> api,
                                     std::shared_ptr<ProcessGroup> control,
                                     std::shared_ptr<LaunchOrder> order, Device device,
                                     const GroupOptions& options);
  /// The core of a part of `parent`'s ranks, those of `control`: by ncclCommSplit. `colour` tells
  /// the parts apart. Collective over the parent, with leave_out() on its other ranks.
  static IntrusivePtr<NcclCore> make_part(NcclCore& parent, int colour,
                                          std::shared_ptr<ProcessGroup> control);
  void leave_out();

  void begin_batch();
  void end_batch();
  /// Blocks the host until the current stream has finished its work, for `operation`.
  void await_stream(const Operation& operation);
  /// Waits for operations in flight on the device, then for every rank to have done so; frees the
  /// communicator and closes the control group. Collective.
  void close();
  /// Its group is gone. Local: operations in flight continue, with their tensors, and the
  /// communicator is freed once all have completed.
  void leave() noexcept;

  /// For its operations:
  [[nodiscard]] ProcessGroup& control() noexcept { return *control_; }
  [[nodiscard]] ProcessGroup& messages() noexcept { return *messages_; }
  [[nodiscard]] NcclCommunicator& communicator() noexcept { return communicator_; }
  [[nodiscard]] NcclQueue& queue() noexcept { return queue_; }
  [[nodiscard]] const std::shared_ptr<LaunchOrder>& order() const noexcept { return order_; }
  /// A collective's position in the order of all groups of the device.
  void enter(LaunchOrder::Place& place, std::uint64_t sequence) {
    place.enter(*order_, order_number_, sequence);
  }
  /// The ranks agree on collectives up to this one.
  void has_agreed_on(std::uint64_t sequence) noexcept { agreed_ = sequence; }
  /// Whether NCCL may have this collective though the ranks have not agreed on it yet. The number
  /// ahead is limited: a device's queue has room for about 1,024 launches, and blocks the host,
  /// with this group's lock, when it is full.
  [[nodiscard]] bool may_be_ahead(std::uint64_t sequence) const noexcept {
    constexpr std::uint64_t most = 64;
    return sequence <= agreed_ + most;
  }
  /// Whether this thread may use the control group.
  [[nodiscard]] bool may_communicate() const noexcept;
  /// f(). Throws OperationFailure if the device or NCCL fail.
  template <class F>
  auto on_device(const F& f) {
    try {
      return f();
    } catch (const NcclError& error) {
      throw OperationFailure(OperationFailure::Kind::transport, error.what());
    } catch (const DeviceError& error) {
      throw OperationFailure(OperationFailure::Kind::transport, error.what());
    }
  }

 private:
  NcclCore(std::shared_ptr<NcclApi> api, std::shared_ptr<ProcessGroup> control,
           std::shared_ptr<LaunchOrder> order, Device device, const GroupOptions& options);
  NcclCore(NcclCore& parent, int colour, std::shared_ptr<ProcessGroup> control);
  ~NcclCore() override = default;

  [[nodiscard]] IntrusivePtr<InFlight> make(Operation&& operation) override;
  [[nodiscard]] DeviceReach reach_of(const Operation& /*operation*/) const noexcept override {
    return DeviceReach::by_device;
  }
  [[nodiscard]] std::string missing_ranks(const InFlight& work) const override;
  void spread_failure(const std::string& reason) noexcept override;
  /// Nothing is in flight any more, or never will be over.
  void end() noexcept;
  static void end_abandoned() noexcept;
  [[nodiscard]] static IntrusivePtr<NcclCore> joined(NcclCore* core);
  /// The group's number in the launch order, and its part of the process's flight recorder, if it
  /// has one. Collective.
  void introduce_to_others();

  std::shared_ptr<ProcessGroup> control_;   // host tensors, and whether calls agree
  std::shared_ptr<ProcessGroup> messages_;  // the same ranks: lengths of messages, other calls
  std::shared_ptr<LaunchOrder> order_;
  std::shared_ptr<const bool> kind_;  // of the device's groups, while this one is in use
  NcclCommunicator communicator_;
  NcclQueue queue_;
  std::uint64_t order_number_ = 0;  // the group's
  std::uint64_t agreed_ = 0;
  bool threads_may_communicate_;
};

}  // namespace lockstep
