#pragma once
// For the sources that call CUDA's libraries.
#include <cuda_runtime_api.h>

#include <string>

#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep::detail {

inline void expect_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw DeviceError(std::string(call) + " failed: " + cudaGetErrorString(status));
}

/// While it lives, this thread's calls are for `device`.
class CudaDeviceScope {
 public:
  explicit CudaDeviceScope(int device) : here_(device) {
    expect_cuda(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != here_) expect_cuda(cudaSetDevice(here_), "cudaSetDevice");
  }
  ~CudaDeviceScope() {
    if (before_ != here_) static_cast<void>(cudaSetDevice(before_));
  }
  CudaDeviceScope(const CudaDeviceScope&) = delete;
  CudaDeviceScope& operator=(const CudaDeviceScope&) = delete;

 private:
  int before_ = 0, here_;
};

}  // namespace lockstep::detail
