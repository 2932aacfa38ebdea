#pragma once
// Operations with two sources: loops over addresses, tuned for the host, and kernels for devices.
// Private to the kernels' .cpp files.
#include <algorithm>
#include <type_traits>
#include <utility>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep {

/// For a GPU and its stand-in (MathStandIn) kernels(space), which launches kernels behind the
/// current stream of the device; else host_task(name, host, tensors...), so that a simulated device
/// has the host's bits: compilers may contract products and sums otherwise in two sources. Throws
/// ShapeError as host_task does.
template <class Host, class Kernels, class... Tensors>
void host_or_kernels(const char* name, const Host& host, const Kernels& kernels,
                     const Tensors&... tensors) {
  const bool is_of_host = ((tensors.device().type == DeviceType::host) && ...);
  const Device device = is_of_host ? Device{} : detail::common_device(name, {&tensors...});
  if (!is_of_host && math::device_math(device)) {
    dispatch(current_stream(device), kernels);
  } else {
    host_task(name, host, tensors...);
  }
}

/// dispatch() for operations whose kernels for a GPU are others: f(space) with the host's space
/// alone, whose kernels simulated devices run too.
template <class F>
void dispatch_to_host(const Stream& stream, F&& f) {
  dispatch(stream, [&](const auto& space) {
    if constexpr (is_host_space<std::remove_cvref_t<decltype(space)>>) std::forward<F>(f)(space);
  });
}

/// For a host's loop: every element of a T is 0.
template <class T>
void zero(const HostArray& array) {
  std::fill_n(static_cast<T*>(array.data()), array.numel(), T{0});
}

}  // namespace lockstep
