#include <lockstep/tensor/stream.hpp>

#include <cstdlib>
#include <mutex>

#include <lockstep/tensor/dispatch.hpp>

namespace lockstep {

void Stream::synchronize() const {
#ifdef KOKKOS_ENABLE_CUDA
  if (device_.type == DeviceType::cuda) Kokkos::fence("lockstep::Stream::synchronize");
#endif
}

CUstream_st* Stream::handle() const {
#ifdef KOKKOS_ENABLE_CUDA
  if (device_.type == DeviceType::cuda) {
    ensure_kokkos();
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

void ensure_kokkos() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (Kokkos::is_initialized()) return;
    Kokkos::initialize();
    std::atexit([] {
      if (Kokkos::is_initialized()) Kokkos::finalize();
    });
  });
}

}  // namespace lockstep
