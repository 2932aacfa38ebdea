#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep {

bool has_cuda_runtime() noexcept { return false; }

DeviceRuntime& detail::cuda_runtime() {
  throw InputError(
      "this build has no CUDA, so it has no GPU: configure it with -DLOCKSTEP_ENABLE_CUDA=ON "
      "(docs/guide/install.md)");
}

}  // namespace lockstep
