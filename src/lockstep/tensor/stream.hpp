#pragma once
#include <lockstep/tensor/device.hpp>

struct CUstream_st;  // what CUDA calls cudaStream_t points to one

namespace lockstep {

/// An ordered queue of work on one device. Kernels and collectives are enqueued behind the thread's
/// current stream of their device. On the host a stream runs its work in place, at once.
class Stream {
 public:
  explicit Stream(Device device = {}) : device_(device) {}
  [[nodiscard]] Device device() const noexcept { return device_; }
  /// Blocks this thread until everything enqueued so far is done. On the host: returns at once.
  void synchronize() const;
  /// The cudaStream_t that kernels are launched on: that of Kokkos in builds with CUDA; in others,
  /// which have no kernels for a device, CUDA's default stream.
  [[nodiscard]] CUstream_st* handle() const;

 private:
  Device device_;
};

/// This thread's current stream on `device`.
[[nodiscard]] Stream& current_stream(Device device = {});

}  // namespace lockstep
