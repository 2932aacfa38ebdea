#pragma once
#include <lockstep/comm/nccl/api.hpp>

namespace lockstep {

/// While it lives, this thread's CUDA calls are for `device`.
class DeviceScope {
 public:
  DeviceScope(NcclApi& api, int device) : api_(api), before_(api.current_device()), here_(device) {
    if (before_ != here_) api_.set_device(here_);
  }
  ~DeviceScope() {
    if (before_ == here_) return;
    try {
      api_.set_device(before_);
    } catch (const GpuError&) {  // NOLINT(bugprone-empty-catch): the next call says so itself
    }
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  NcclApi& api_;
  int before_, here_;
};

}  // namespace lockstep
