#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/device.hpp>

namespace lockstep {

// A runtime's records of a stream, an event and a captured graph. CUDA's are the pointers that CUDA
// returns.
struct RuntimeStream;
struct RuntimeEvent;
struct RuntimeGraph;

/// A device failed: every later call for it fails with the same message.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(message) {}
};

/// The operations of one kind of device: memory, streams, copies, events, graphs. Devices are
/// counted from 0; a process may use several. Thread-safe. Calls throw DeviceError for failures of
/// the device or of an earlier kernel on it.
///
/// A stream runs its work in the order in which it was enqueued. Only events order work on two
/// streams. There is no default stream that synchronizes with others.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  DeviceRuntime(const DeviceRuntime&) = delete;
  DeviceRuntime& operator=(const DeviceRuntime&) = delete;

  [[nodiscard]] virtual DeviceType type() const noexcept = 0;
  /// How many devices this process sees.
  [[nodiscard]] virtual int device_count() = 0;

  // --- memory

  /// Device memory, aligned to 256 bytes, uninitialized; null if memory is exhausted.
  [[nodiscard]] virtual void* allocate(int device, std::size_t bytes) = 0;
  /// Frees it after all work enqueued on the device so far: blocks until then.
  virtual void free(int device, void* data) noexcept = 0;
  /// The kernel address of `data`, an address within device memory.
  [[nodiscard]] virtual void* kernel_address(void* data) noexcept { return data; }
  /// Sets the memory's label, for messages.
  virtual void set_label(void* /*data*/, std::string_view /*label*/) noexcept {}
  /// The contents are undefined from here on, in the order of `stream`.
  virtual void retire(void* /*data*/, std::size_t /*bytes*/, RuntimeStream* /*stream*/) {}

  /// Host memory for asynchronous copies; null if memory is exhausted.
  [[nodiscard]] virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(void* data) noexcept = 0;

  // --- streams

  [[nodiscard]] virtual RuntimeStream* make_stream(int device) = 0;
  /// Waits for its work.
  virtual void destroy(RuntimeStream* stream) noexcept = 0;
  /// Blocks until all work enqueued on the stream so far has completed.
  virtual void synchronize(RuntimeStream* stream) = 0;
  virtual void synchronize_device(int device) = 0;

  /// Copies between any two of: memory of devices, pinned memory, other memory of the host. The
  /// ranges do not overlap. Unpinned host memory may be read and written again as soon as this
  /// returns; all other memory when the stream has reached this point.
  virtual void copy(void* to, const void* from, std::size_t bytes, RuntimeStream* stream) = 0;
  /// Sets every byte of a device's memory.
  virtual void fill(void* to, unsigned char value, std::size_t bytes, RuntimeStream* stream) = 0;

  // --- events: marks in a stream's order

  [[nodiscard]] virtual RuntimeEvent* make_event(int device, bool enable_timing) = 0;
  virtual void destroy(RuntimeEvent* event) noexcept = 0;
  /// Marks the work enqueued on the stream so far, in place of the previous mark.
  virtual void record(RuntimeEvent* event, RuntimeStream* stream) = 0;
  /// Work enqueued on the stream from now on waits for the mark. An event that was never recorded
  /// is over.
  virtual void wait(RuntimeStream* stream, RuntimeEvent* event) = 0;
  [[nodiscard]] virtual bool is_over(RuntimeEvent* event) = 0;
  virtual void synchronize(RuntimeEvent* event) = 0;
  /// Between two marks that are over, of events with timing.
  [[nodiscard]] virtual double milliseconds(RuntimeEvent* from, RuntimeEvent* to) = 0;

  // --- graphs: the work of one stream, written down once and launched again and again

  /// Work enqueued on the stream from now on is recorded and not run. Forbidden meanwhile, with
  /// DeviceError: on any thread to wait for the stream; on this thread to wait or ask for events,
  /// to wait for other streams, to allocate or free on its device, to copy from or to memory of the
  /// host that is not pinned.
  virtual void begin_capture(RuntimeStream* stream) = 0;
  [[nodiscard]] virtual RuntimeGraph* end_capture(RuntimeStream* stream) = 0;
  virtual void launch(RuntimeGraph* graph, RuntimeStream* stream) = 0;
  /// Not before its launches are done.
  virtual void destroy(RuntimeGraph* graph) noexcept = 0;

  /// The PCI address of a device; empty without one. Uses nothing of the device.
  [[nodiscard]] virtual std::string pci_address(int /*device*/) { return ""; }

 protected:
  DeviceRuntime() = default;
};

/// That of CUDA or of the simulated devices. Throws InputError for the host, which needs none, and
/// for CUDA in a build without it.
[[nodiscard]] DeviceRuntime& runtime_of(DeviceType type);

/// Whether this build has a runtime for CUDA.
[[nodiscard]] bool has_cuda_runtime() noexcept;

namespace detail {
/// The runtime of CUDA. Throws InputError in a build without.
[[nodiscard]] DeviceRuntime& cuda_runtime();
}  // namespace detail

}  // namespace lockstep
