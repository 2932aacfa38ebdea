#pragma once
// Operations with two sources: loops over addresses, tuned for the host, and kernels for devices.
// Private to the kernels' .cpp files.
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>

namespace lockstep {

/// host(HostArray(tensors)...), at once, for tensors of the host; otherwise kernels(space), which
/// launches kernels behind the current stream of their device. Both add in one order, so that a
/// simulated device has the host's bits. Throws ShapeError, in a sentence that begins with `name`,
/// for tensors of several devices. An undefined tensor is an array that is not defined.
template <class Host, class Kernels, class... Tensors>
void host_or_kernels(const char* name, const Host& host, const Kernels& kernels,
                     const Tensors&... tensors) {
  if (((tensors.device().type == DeviceType::host) && ...)) {
    host(HostArray(tensors)...);
  } else {
    dispatch(current_stream(detail::common_device(name, {&tensors...})), kernels);
  }
}

}  // namespace lockstep
