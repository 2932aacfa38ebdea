#include <lockstep/tensor/device_memory.hpp>

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include <lockstep/tensor/runtime/device_runtime.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep {
namespace {

/// Copies between two devices, each on its own stream: both streams wait for the copy.
void copy_across(void* target, Device target_device, const void* source, Device source_device,
                 std::size_t bytes) {
  if (target_device.type != source_device.type) {
    throw ShapeError("nothing copies from " + to_string(source_device) + " to " +
                     to_string(target_device) + " directly: copy to the host first");
  }
  const Stream& to = current_stream(target_device);
  const Stream& from = current_stream(source_device);
  DeviceEvent made(source_device), copied(target_device);
  made.record(from);
  to.wait(made);
  runtime_of(target_device.type).copy(target, source, bytes, to.queue());
  copied.record(to);
  from.wait(copied);
}

/// At least one end is on a device.
[[gnu::noinline]] void copy_on_device(void* target, Device target_device, const void* source,
                                      Device source_device, std::size_t bytes, bool non_blocking) {
  const bool to_host = target_device.type == DeviceType::host;
  const bool from_host = source_device.type == DeviceType::host;
  if (!to_host && !from_host && target_device != source_device) {
    return copy_across(target, target_device, source, source_device, bytes);
  }
  const Stream& stream = current_stream(to_host ? source_device : target_device);
  DeviceRuntime& runtime = runtime_of(stream.device().type);
  runtime.copy(target, source, bytes, stream.queue());
  if ((to_host || from_host) && !non_blocking) runtime.synchronize(stream.queue());
}

[[gnu::noinline]] void zero_on_device(void* target, Device device, std::size_t bytes) {
  runtime_of(device.type).fill(target, 0, bytes, current_stream(device).queue());
}

}  // namespace

void* host_malloc(std::size_t bytes) noexcept {
  // Use 2 MiB pages where the system offers them on request: a GPT step in bf16 takes 5 % less
  // time, spent on page-table misses before.
  constexpr std::size_t huge = std::size_t{1} << 21U;
  const std::size_t alignment = bytes < huge ? 64 : huge;
  void* const data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (data && bytes >= huge) static_cast<void>(::madvise(data, bytes, MADV_HUGEPAGE));
  return data;
}

void host_free(void* data) noexcept { std::free(data); }

void device_copy(void* target, Device target_device, const void* source, Device source_device,
                 std::size_t bytes, bool non_blocking) {
  if (bytes == 0 || target == source) return;
  if (target_device.type == DeviceType::host && source_device.type == DeviceType::host) {
    std::memmove(target, source, bytes);
  } else {
    copy_on_device(target, target_device, source, source_device, bytes, non_blocking);
  }
}

void device_zero(void* target, Device device, std::size_t bytes) {
  if (bytes == 0) return;
  if (device.type == DeviceType::host) {
    std::memset(target, 0, bytes);
  } else {
    zero_on_device(target, device, bytes);
  }
}

std::string gpu_address(Device device) {
  if (device.type != DeviceType::cuda || !has_cuda_runtime()) return "";
  return detail::cuda_runtime().pci_address(device.index);
}

}  // namespace lockstep
