#pragma once
#include <lockstep/tensor/device.hpp>

namespace lockstep::nn {

/// While it lives, modules made on this thread hold their parameters and buffers on `device`:
/// PyTorch's `with torch.device(...)`. Initial values are drawn on the host, so that they have the
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

/// The device of parameters of modules that this thread makes.
[[nodiscard]] Device default_device() noexcept;

}  // namespace lockstep::nn
