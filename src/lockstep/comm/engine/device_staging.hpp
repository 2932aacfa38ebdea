#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/comm/operation.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep {

/// What a group needs of one device to stage operations: events, made once and used again, and the
/// stream that results come back on. Guarded by the group's lock.
class StagingDevice {
 public:
  explicit StagingDevice(Device device) : device_(device), back_(Stream::from_pool(device)) {}

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] const Stream& back() const noexcept { return back_; }
  [[nodiscard]] DeviceEvent* take_event();
  void give_event(DeviceEvent* event) noexcept;

 private:
  Device device_;
  Stream back_;
  std::vector<std::unique_ptr<DeviceEvent>> events_;
  std::vector<DeviceEvent*> free_;  // has room for all of events_
};

/// How a backend takes an operation whose tensors lie on a device.
enum class DeviceReach : std::uint8_t {
  by_pinned_memory,  ///< it gets pinned tensors of the host instead
  by_host,           ///< as it is, once the device has come so far: it uses the device's memory
  by_device          ///< as it is, at once: it orders the device's work itself
};

/// An operation whose tensors lie on a device that its backend does not reach. The backend gets
/// pinned tensors of the host in their place. What they bring is copied there behind the current
/// stream of the caller. What they get is copied back on a stream of the group's own, which first
/// waits for what the caller's stream had been given before the call. In place stays in place.
/// With DeviceReach::by_host nothing is copied, and the backend waits for the caller's stream.
class DeviceStaging {
 public:
  /// Puts pinned tensors in the place of the operation's, unless `by_host`. Throws
  /// OutOfMemoryError.
  DeviceStaging(Operation& operation, StagingDevice& device, bool by_host);

  [[nodiscard]] Device device() const noexcept { return device_->device(); }

  /// Copies what this rank brings, behind the current stream; `rank`: this one.
  void copy_out(const Operation& operation, int rank);
  /// Whether the backend may have the operation. Does not wait.
  [[nodiscard]] bool has_come() const { return !holds_ || given_->is_over(); }
  /// Copies what this rank got.
  void copy_back(const Operation& operation, int rank);
  /// Whether that copy is done. Does not wait.
  [[nodiscard]] bool is_back() const { return !back_ || back_->is_over(); }
  /// The calling thread's current stream waits for that copy.
  void order_stream() const {
    if (back_) current_stream(device()).wait(*back_);
  }
  /// The operation is over: lets go of the device's tensors and events.
  void end() noexcept;

 private:
  StagingDevice* device_;
  Tensor input_, output_;         // on the device
  DeviceEvent* given_ = nullptr;  // what the caller's stream had before, and the copy out
  DeviceEvent* back_ = nullptr;
  bool by_host_ = false;
  bool holds_ = false;  // the backend waits for given_
};

}  // namespace lockstep
