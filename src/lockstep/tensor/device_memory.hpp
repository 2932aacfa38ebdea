#pragma once
#include <cstddef>
#include <string>

#include <lockstep/tensor/device.hpp>

namespace lockstep {

/// Raw memory of the host, aligned to 64 bytes; null when there is none left. Only the caching
/// allocator calls this: everything else takes a Tensor.
[[nodiscard]] void* host_malloc(std::size_t bytes) noexcept;
/// Gives back what host_malloc returned.
void host_free(void* data) noexcept;

/// Copies bytes between any two devices, behind this thread's current streams of both. Returns when
/// the bytes of an end on the host may be read and written, or, with `non_blocking`, whose end on
/// the host is pinned, at once.
void device_copy(void* target, Device target_device, const void* source, Device source_device,
                 std::size_t bytes, bool non_blocking = false);

/// Sets bytes to zero behind the device's current stream.
void device_zero(void* target, Device device, std::size_t bytes);

/// The PCI address of the GPU that this thread computes on; empty where there is none, or no CUDA.
[[nodiscard]] std::string current_gpu();

}  // namespace lockstep
