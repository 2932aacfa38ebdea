#pragma once
#include <utility>

#include <lockstep/tensor/dispatch_dtype.hpp>
#include <lockstep/tensor/runtime/launch.hpp>
#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/view.hpp>

namespace lockstep {

/// Initialises Kokkos for kernels on `device`, if nobody has; it is finalised at exit only if we
/// initialised it. In a build with CUDA the host needs none of Kokkos, so that there nothing is
/// done for it, and its programs run without a GPU; the first device that is asked for is the one
/// that Kokkos uses. Throws Error where CUDA finds no such device. Thread-safe.
void ensure_kokkos(Device device = {});

#ifdef KOKKOS_ENABLE_CUDA
namespace detail {
/// Kokkos' instance for a stream, made once.
[[nodiscard]] Kokkos::Cuda cuda_space(const Stream& stream);
}  // namespace detail
#endif

/// Calls f(space) with the execution space of `stream`'s device: the one place where a kernel
/// template meets its device. `f` is a generic callable that launches kernels on that space. For a
/// simulated device that is the host's space: for_each hands the kernels to the stream.
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
