#include <lockstep/tensor/runtime/device_runtime.hpp>

#include <lockstep/tensor/runtime/simulated_runtime.hpp>

namespace lockstep {

DeviceRuntime& runtime_of(DeviceType type) {
  switch (type) {
    case DeviceType::cuda:
      return detail::cuda_runtime();
    case DeviceType::sim:
      return SimulatedRuntime::instance();
    case DeviceType::host:
      break;
  }
  throw InputError("the host has no device runtime: its memory and kernels need none");
}

}  // namespace lockstep
