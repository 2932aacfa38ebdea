#pragma once
// What cuDNN's plans share. Only in builds with CUDA.
#include <cudnn.h>

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <lockstep/tensor/math/device_math.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep::math {

/// Throws if a call fails: Error while the plan is made, DeviceError later.
template <class Problem>
class CudnnCheck {
 public:
  CudnnCheck(const char* name, const Problem& problem, Device device, bool is_planned)
      : name_(name), problem_(problem), device_(device), is_planned_(is_planned) {}
  void operator()(cudnnStatus_t status, const char* call) const {
    if (status == CUDNN_STATUS_SUCCESS) return;
    std::array<char, 512> why{};
    cudnnGetLastErrorString(why.data(), why.size());
    fail(std::string(call) + " gave " + cudnnGetErrorString(status) +
         (why[0] != '\0' ? std::string(" (") + why.data() + ")" : ""));
  }
  [[noreturn]] void fail(const std::string& what) const {
    const std::string sentence =
        std::string(name_) + ": " + describe(problem_) + " on " + to_string(device_) + ": " + what;
    if (is_planned_) throw DeviceError(sentence);
    throw Error(sentence);
  }

 private:
  const char* name_;
  const Problem& problem_;
  Device device_;
  bool is_planned_;
};

/// The handle of a stream, which this thread alone uses as long as this lives.
class CudnnHandle {
 public:
  template <class Problem>
  CudnnHandle(const Stream& stream, const CudnnCheck<Problem>& check)
      : kept_(kept_for(stream)), lock_(kept_.mutex) {
    if (kept_.handle != nullptr) return;
    cudnnHandle_t made = nullptr;
    check(cudnnCreate(&made), "cudnnCreate");
    check(cudnnSetStream(made, stream.handle()), "cudnnSetStream");
    kept_.handle = made;
  }
  [[nodiscard]] cudnnHandle_t get() const noexcept { return kept_.handle; }

 private:
  struct Kept {
    std::mutex mutex;
    cudnnHandle_t handle = nullptr;
  };
  /// Never destroyed: threads may compute until the process ends.
  static Kept& kept_for(const Stream& stream) {
    static std::mutex mutex;
    static auto& handles = *new std::map<std::pair<int, CUstream_st*>, Kept>;
    const std::lock_guard lock(mutex);
    return handles[{stream.device().index, stream.handle()}];
  }

  Kept& kept_;
  std::lock_guard<std::mutex> lock_;
};

}  // namespace lockstep::math
