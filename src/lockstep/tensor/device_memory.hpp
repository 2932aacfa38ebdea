#pragma once
#include <cstddef>
#include <string>

#include <lockstep/tensor/device.hpp>

namespace lockstep {

/// Raw memory of the host, aligned to 64 bytes; null if memory is exhausted. Only the caching
/// allocator calls this: everything else takes a Tensor.
[[nodiscard]] void* host_malloc(std::size_t bytes) noexcept;
/// Frees memory from host_malloc.
void host_free(void* data) noexcept;

/// Copies bytes between any two devices, behind this thread's current streams of both. Returns when
/// host memory at either end may be read and written; with `non_blocking`, and pinned host memory,
/// at once.
void device_copy(void* target, Device target_device, const void* source, Device source_device,
                 std::size_t bytes, bool non_blocking = false);

/// Sets bytes to zero behind the device's current stream.
void device_zero(void* target, Device device, std::size_t bytes);

/// The PCI address of a GPU; empty for other devices, and if it is not known.
[[nodiscard]] std::string gpu_address(Device device);

}  // namespace lockstep
