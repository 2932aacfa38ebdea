#pragma once
#include <lockstep/tensor/device.hpp>

namespace lockstep::nn {

/// While alive, modules made on this thread hold their parameters and buffers on `device`: what
/// `with torch.device(...)` is for. Initial values are drawn on the host, so that they have the
/// same bits on every device.
///   const nn::DeviceGuard on_gpu({DeviceType::cuda, 0});
///   const auto model = nn::convnet({1, 28, 28}, 10);
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  Device before_;
};

/// Where modules that are made on this thread hold their parameters.
[[nodiscard]] Device default_device() noexcept;

}  // namespace lockstep::nn
