#pragma once
// For the sources that call CUDA's libraries.
#include <cuda_runtime_api.h>

#include <atomic>
#include <string>

#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep::detail {

inline void expect_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw DeviceError(std::string(call) + " failed: " + cudaGetErrorString(status));
}

/// Whether this process uses the device: its primary context exists. Makes none.
[[nodiscard]] inline bool has_cuda_context(int device) noexcept {
  // The driver's, which only a machine with a GPU has: CUresult(CUdevice, unsigned*, int*).
  using GetState = int (*)(int device, unsigned* flags, int* is_active);
  static const auto get_state = [] {
    void* address = nullptr;
    constexpr const char* name = "cuDevicePrimaryCtxGetState";
#if CUDART_VERSION >= 12050
    constexpr unsigned since = 7000;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion(name, &address, since, cudaEnableDefault, nullptr);
#else
    const cudaError_t status = cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, nullptr);
#endif
    if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
    return reinterpret_cast<GetState>(address);
  }();
  unsigned flags = 0;
  int is_active = 0;
  return !get_state || get_state(device, &flags, &is_active) != 0 || is_active != 0;
}

/// The first device that Lockstep has used in this process; -1: none yet.
inline std::atomic<int> first_cuda_device = -1;

/// Before calls that name no device. Almost every call of CUDA makes a context of the thread's
/// current device, some 500 MB of its memory, and that is device 0 of a thread that has chosen
/// none. So such a thread chooses the device that Lockstep used first in this process.
inline void choose_cuda_device() noexcept {
  thread_local bool has_chosen = false;
  if (has_chosen) return;
  const int first = first_cuda_device.load(std::memory_order_relaxed);
  if (first < 0) return;
  int current = 0;
  if (cudaGetDevice(&current) == cudaSuccess && !has_cuda_context(current) &&
      cudaSetDevice(first) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
  }
  has_chosen = true;
}

/// While it lives, this thread's calls are for `device`. Afterwards they are for the device of
/// before if that one is in use, otherwise they stay: to return makes a context, too.
class CudaDeviceScope {
 public:
  explicit CudaDeviceScope(int device) : here_(device) {
    expect_cuda(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != here_) expect_cuda(cudaSetDevice(here_), "cudaSetDevice");
    int none = -1;
    first_cuda_device.compare_exchange_strong(none, device, std::memory_order_relaxed);
  }
  ~CudaDeviceScope() {
    if (before_ != here_ && has_cuda_context(before_)) static_cast<void>(cudaSetDevice(before_));
  }
  CudaDeviceScope(const CudaDeviceScope&) = delete;
  CudaDeviceScope& operator=(const CudaDeviceScope&) = delete;

 private:
  int before_ = 0, here_;
};

}  // namespace lockstep::detail
