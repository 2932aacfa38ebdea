#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/absent_memory.hpp>

namespace lockstep {
namespace {

constexpr std::size_t page_bytes = std::size_t{1} << 22;

/// A file of NaNs in memory: bytes of ones are NaN in every floating type. -1 without it.
int file_of_nans() noexcept {
  static const int file = [] {
    const int fd = memfd_create("lockstep_absent", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(page_bytes)) != 0) return -1;
    void* const page = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) return -1;
    std::memset(page, 0xff, page_bytes);
    munmap(page, page_bytes);
    return fd;
  }();
  return file;
}

void unmap(void* data, void* context) noexcept {
  munmap(data, reinterpret_cast<std::size_t>(context));
}

}  // namespace

IntrusivePtr<Storage> absent_memory(std::size_t bytes, Device device) {
  if (device.type != DeviceType::host) return Storage::allocate(Storage::padding_bytes, device);
  const std::size_t length = (bytes / page_bytes + 1) * page_bytes;
  const int file = file_of_nans();
  void* const range = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  bool mapped = range != MAP_FAILED && file >= 0;
  for (std::size_t at = 0; mapped && at < length; at += page_bytes) {
    mapped = mmap(static_cast<std::byte*>(range) + at, page_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) != MAP_FAILED;
  }
  if (!mapped) {
    const std::string reason = std::strerror(errno);
    if (range != MAP_FAILED) munmap(range, length);
    throw Error("addresses for " + std::to_string(bytes >> 20U) +
                " MiB of sharded parameters could not be reserved: " + reason +
                ". Raise vm.max_map_count, or the limit of the address space (ulimit -v).");
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): unmap takes it back as a number
  return Storage::borrow(range, bytes, device, unmap, reinterpret_cast<void*>(length));
}

bool is_absent(const Storage& storage, std::size_t end) noexcept {
  return end > storage.bytes() || storage.is_released_by(unmap);
}

}  // namespace lockstep
