#include <lockstep/tensor/runtime/cuda_runtime.hpp>

namespace lockstep {

bool has_cuda_runtime() noexcept { return true; }

DeviceRuntime& detail::cuda_runtime() {
  static auto* const runtime = make_cuda_runtime().release();  // tensors may outlive main()
  return *runtime;
}

}  // namespace lockstep
