#pragma once
#include <utility>

#include <lockstep/tensor/dispatch_dtype.hpp>
#include <lockstep/tensor/runtime/launch.hpp>
#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/view.hpp>

namespace lockstep {

/// Initialises Kokkos for kernels on `device`, if nobody has; it is finalised at exit only if we
/// initialised it. In a build with CUDA, host tensors do not use Kokkos, so it is not initialised
/// for them and programs run without a GPU; Kokkos uses the first device that is requested. Throws
/// Error if CUDA finds no such device. Thread-safe.
void ensure_kokkos(Device device = {});

#ifdef KOKKOS_ENABLE_CUDA
namespace detail {
/// Kokkos' instance for a stream, made once.
[[nodiscard]] Kokkos::Cuda cuda_space(const Stream& stream);
}  // namespace detail
#endif

/// Calls f(space) with the execution space of `stream`'s device: the one place where a kernel
/// template is bound to its device. `f` is a generic callable that launches kernels on that space.
/// For a simulated device that is the host's space: for_each hands the kernels to the stream.
template <class F>
void dispatch(const Stream& stream, F&& f) {
  ensure_kokkos(stream.device());
  const detail::LaunchScope scope(stream);
#ifdef KOKKOS_ENABLE_CUDA
  if (stream.device().type == DeviceType::cuda) {
    std::forward<F>(f)(detail::cuda_space(stream));
    return;
  }
#endif
  std::forward<F>(f)(HostExecutionSpace());
}

}  // namespace lockstep
