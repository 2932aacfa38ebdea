#pragma once
// What cuDNN's plans share. Only in builds with CUDA.
#include <cudnn.h>

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/math/device_math.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep::math {

/// cuDNN lacks what a problem needs, at every try: no failure that may pass.
class NotSupportedError : public Error {
 public:
  using Error::Error;
};

/// Throws if a call fails: Error while the plan is made, NotSupportedError if cuDNN says so then,
/// DeviceError later.
template <class Problem>
class CudnnCheck {
 public:
  CudnnCheck(const char* name, const Problem& problem, Device device, bool is_planned)
      : name_(name), problem_(problem), device_(device), is_planned_(is_planned) {}
  void operator()(cudnnStatus_t status, const char* call) const {
    if (status == CUDNN_STATUS_SUCCESS) return;
    std::array<char, 512> why{};
    cudnnGetLastErrorString(why.data(), why.size());
    const std::string what = std::string(call) + " gave " + cudnnGetErrorString(status) +
                             (why[0] != '\0' ? std::string(" (") + why.data() + ")" : "");
    // Of some problems that it lacks cuDNN says that their parameters are bad.
    const auto kind = CUDNN_STATUS_CATEGORY(status);
    const bool lacks = kind == CUDNN_STATUS_NOT_SUPPORTED || kind == CUDNN_STATUS_BAD_PARAM;
    if (lacks && !is_planned_) throw NotSupportedError(sentence(what));
    fail(what);
  }
  [[noreturn]] void fail(const std::string& what) const {
    if (is_planned_) throw DeviceError(sentence(what));
    throw Error(sentence(what));
  }
  /// `what` in a sentence that names the operation, the problem and the device.
  [[nodiscard]] std::string sentence(const std::string& what) const {
    return std::string(name_) + ": " + describe(problem_) + " on " + to_string(device_) + ": " +
           what;
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
