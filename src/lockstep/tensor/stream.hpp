#pragma once
#include <lockstep/tensor/device.hpp>

struct CUstream_st;  // points to a cudaStream_t with CUDA

namespace lockstep {

struct RuntimeEvent;
struct RuntimeStream;
class DeviceEvent;

/// An ordered queue of work on one device; a value that names it. Kernels, copies and collectives
/// are enqueued behind the thread's current stream of their device. On the host a stream runs its
/// work in place, at once.
class Stream {
 public:
  /// The device's first stream: every thread's current one until it chooses another.
  constexpr explicit Stream(Device device = {}) : device_(device) {
    if (device.type != DeviceType::host) queue_ = first_queue(device);
  }
  /// Another stream of the device, for concurrent work. There are streams_in_pool, assigned in
  /// turn; they live as long as the process.
  [[nodiscard]] static Stream from_pool(Device device);
  static constexpr int streams_in_pool = 8;

  [[nodiscard]] Device device() const noexcept { return device_; }
  /// Blocks this thread until all work enqueued so far has completed. On the host: returns at once.
  void synchronize() const;
  /// Work enqueued from now on waits for the work that the event marks.
  void wait(const DeviceEvent& event) const;
  /// The cudaStream_t that kernels are launched on, never the null stream; null on the host, and in
  /// a build without CUDA's kernels.
  [[nodiscard]] CUstream_st* handle() const noexcept {
    return reinterpret_cast<CUstream_st*>(queue_);
  }
  /// The runtime's handle; null on the host.
  [[nodiscard]] RuntimeStream* queue() const noexcept { return queue_; }

  friend bool operator==(const Stream&, const Stream&) = default;

 private:
  static RuntimeStream* first_queue(Device device);

  Device device_;
  RuntimeStream* queue_ = nullptr;
};

/// This thread's current stream on `device`.
[[nodiscard]] Stream& current_stream(Device device = {});

/// While it lives, `stream` is this thread's current one on its device.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream before_;
};

/// A mark in a stream's order. On the host it is always over.
class DeviceEvent {
 public:
  /// `enable_timing`: for milliseconds_since. A mark without it is cheaper for a GPU.
  explicit DeviceEvent(Device device = {}, bool enable_timing = false);
  ~DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  /// Marks the work enqueued so far on the stream, which must be of the event's device.
  void record(const Stream& stream);
  /// Whether all that it marks is done; true until it is recorded.
  [[nodiscard]] bool is_over() const;
  void synchronize() const;
  /// Between an earlier mark and this one, both over; 0 on the host. Throws Error unless both
  /// events were made with enable_timing.
  [[nodiscard]] double milliseconds_since(const DeviceEvent& earlier) const;

 private:
  friend class Stream;
  Device device_;
  bool enable_timing_;
  RuntimeEvent* event_ = nullptr;
};

}  // namespace lockstep
