#include <lockstep/tensor/stream.hpp>

#include <cstdlib>
#include <mutex>
#include <string>

#include <lockstep/tensor/dispatch.hpp>

namespace lockstep {

void Stream::synchronize() const {
#ifdef KOKKOS_ENABLE_CUDA
  if (device_.type == DeviceType::cuda) Kokkos::fence();
#endif
}

CUstream_st* Stream::handle() const {
#ifdef KOKKOS_ENABLE_CUDA
  if (device_.type == DeviceType::cuda) {
    ensure_kokkos(device_);
    return Kokkos::Cuda().cuda_stream();
  }
#endif
  return nullptr;
}

Stream& current_stream(Device device) {
  thread_local Stream host{Device{}};
  if (device.type == DeviceType::host) return host;
  thread_local Stream cuda{device};
  if (!(cuda.device() == device)) cuda = Stream(device);
  return cuda;
}

#ifdef KOKKOS_ENABLE_CUDA
namespace {

void initialize_kokkos(Device device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) count = 0;  // which is left as it was
  if (device.index >= count) {
    throw Error(
        "there is no " + to_string(device) + ": CUDA finds " + std::to_string(count) + " devices" +
        (status != cudaSuccess ? std::string(" (") + cudaGetErrorString(status) + ")" : "") +
        ". Run on the host, or where the driver shows this process a GPU.");
  }
#if KOKKOS_VERSION < 30700
  Kokkos::InitArguments settings;
  settings.device_id = device.index;
#else
  const auto settings = Kokkos::InitializationSettings().set_device_id(device.index);
#endif
  Kokkos::initialize(settings);
}

}  // namespace
#endif

void ensure_kokkos([[maybe_unused]] Device device) {
#ifdef KOKKOS_ENABLE_CUDA
  if (device.type == DeviceType::host) return;
#endif
  static std::once_flag once;
  std::call_once(once, [&] {
    if (Kokkos::is_initialized()) return;
#ifdef KOKKOS_ENABLE_CUDA
    initialize_kokkos(device);
#else
    Kokkos::initialize();
#endif
    std::atexit([] {
      if (Kokkos::is_initialized()) Kokkos::finalize();
    });
  });
}

}  // namespace lockstep
