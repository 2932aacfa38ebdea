#pragma once
#include <memory>

#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep {

/// A runtime of CUDA's, without state of its own. In builds with CUDA.
[[nodiscard]] std::unique_ptr<DeviceRuntime> make_cuda_runtime();

}  // namespace lockstep
