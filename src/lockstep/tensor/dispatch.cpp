#include <lockstep/tensor/dispatch.hpp>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep {
namespace detail {

constinit thread_local LaunchTarget launch_target;
constinit std::atomic<bool> kernels_are_profiled = false;

LaunchTarget target_of(const Stream& stream) {
  if (stream.device().type == DeviceType::host) return {};
  if (stream.device().type == DeviceType::sim) return {stream.device(), stream.queue()};
#ifdef KOKKOS_ENABLE_CUDA
  return {stream.device(), nullptr};
#else
  throw ShapeError("this build has no CUDA, so it cannot compute on " + to_string(stream.device()) +
                   ": move its tensors to the host first");
#endif
}

std::uint64_t begin_profiled(const char* label) {
  std::uint64_t id = 0;
  Kokkos::Tools::beginParallelFor(label, 0, &id);
  return id;
}

void end_profiled(std::uint64_t id) { Kokkos::Tools::endParallelFor(id); }

#ifdef KOKKOS_ENABLE_CUDA
Kokkos::Cuda cuda_space(const Stream& stream) {
  static std::mutex mutex;
  static auto& made = *new std::map<CUstream_st*, Kokkos::Cuda>;
  const std::lock_guard lock(mutex);
  const Kokkos::Cuda& space = made.try_emplace(stream.handle(), stream.handle()).first->second;
  if (space.cuda_device() != stream.device().index) {
    throw Error("kernels run on cuda:" + std::to_string(space.cuda_device()) +
                ", the first GPU that this process used, not on " + to_string(stream.device()) +
                ": move its tensors there with to()");
  }
  return space;
}
#endif

}  // namespace detail

#ifdef KOKKOS_ENABLE_CUDA
namespace {

void initialize_kokkos(Device device) {
  const int count = runtime_of(device.type).device_count();
  if (device.index >= count) {
    throw Error("there is no " + to_string(device) + ": CUDA finds " + std::to_string(count) +
                " devices. Run on the host, or where the driver shows this process a GPU.");
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
  if (device.type != DeviceType::cuda) return;
#endif
  static std::once_flag once;
  std::call_once(once, [&] {
    if (!Kokkos::is_initialized()) {
#ifdef KOKKOS_ENABLE_CUDA
      initialize_kokkos(device);
#else
      Kokkos::initialize();
#endif
      std::atexit([] {
        if (Kokkos::is_initialized()) Kokkos::finalize();
      });
    }
    detail::kernels_are_profiled = Kokkos::Tools::profileLibraryLoaded();
  });
}

}  // namespace lockstep
