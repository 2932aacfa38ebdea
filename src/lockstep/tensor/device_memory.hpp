#pragma once
#include <cstddef>
#include <string>

#include <lockstep/tensor/device.hpp>

namespace lockstep {

/// Raw memory of a device, aligned to 64 bytes; null when there is none left. Only the caching
/// allocator calls this: everything else takes a Tensor.
[[nodiscard]] void* device_malloc(std::size_t bytes, Device device) noexcept;
/// Gives back what device_malloc returned.
void device_free(void* data, Device device) noexcept;

/// Copies bytes between any two devices behind the current streams and waits for the copy.
void device_copy(void* target, Device target_device, const void* source, Device source_device,
                 std::size_t bytes);

/// Sets bytes to zero behind the device's current stream.
void device_zero(void* target, Device device, std::size_t bytes);

/// The PCI address of the GPU that this thread computes on; empty where there is none, or no CUDA.
[[nodiscard]] std::string current_gpu();

}  // namespace lockstep
