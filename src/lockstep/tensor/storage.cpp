#include <lockstep/tensor/storage.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <lockstep/base/failure.hpp>
#include <lockstep/tensor/device_memory.hpp>

namespace lockstep {
namespace {

constexpr std::size_t smallest_block = 64;
constexpr int steps_an_octave = 4;  // blocks are at most 25 % larger than asked for
constexpr int classes = 48 * steps_an_octave;

struct SizeClass {
  int index;
  std::size_t bytes;
};

// Class sizes are smallest_block * 2^(octave) * (1 + step/4).
SizeClass size_class_of(std::size_t bytes) {
  if (bytes <= smallest_block) return {0, smallest_block};
  const int octave = std::bit_width(bytes - 1) - 1 - std::countr_zero(smallest_block);
  const std::size_t base = smallest_block << octave;
  const std::size_t step_bytes = base / steps_an_octave;
  const std::size_t steps = (bytes - base + step_bytes - 1) / step_bytes;
  return {octave * steps_an_octave + static_cast<int>(steps), base + steps * step_bytes};
}

}  // namespace

/// Freed blocks by device and size class. One mutex: an allocation in a steady loop is a list pop.
class StorageCache {
 public:
  static StorageCache& instance() {
    static StorageCache* cache = new StorageCache;  // tensors may outlive main()
    return *cache;
  }

  Storage* take(std::size_t bytes, Device device) {
    const SizeClass size = size_class_of(bytes);
    if (size.index >= classes) {
      throw Error("a tensor of " + std::to_string(bytes) + " bytes is beyond any machine's memory");
    }
    {
      const std::lock_guard lock(mutex_);
      if (Storage*& head = list(device, size.index)) {
        Storage* storage = std::exchange(head, head->next_free_);
        stats_.cached -= static_cast<std::int64_t>(storage->bytes_);
        count_use(storage->bytes_);
        return storage;
      }
    }
    return make(size, device);
  }

  /// From the system: `size.index` is what the storage remembers to be given back by.
  Storage* make(SizeClass size, Device device) {
    auto* storage = new Storage;
    storage->data_ = device_malloc(size.bytes, device);
    if (!storage->data_) {
      delete storage;
      throw OutOfMemoryError("out of memory: " + std::to_string(size.bytes >> 20U) +
                             " MiB for one tensor on " + to_string(device) +
                             " could not be had while tensors already hold " +
                             std::to_string(memory_stats().in_use >> 20U) +
                             " MiB. Use a smaller batch, or more ranks.");
    }
    storage->bytes_ = size.bytes;
    storage->device_ = device;
    storage->size_class_ = size.index;
    const std::lock_guard lock(mutex_);
    ++stats_.system_allocations;
    count_use(size.bytes);
    return storage;
  }

  void give(Storage* storage) noexcept {
    storage->padded_ = false;
    const std::lock_guard lock(mutex_);
    stats_.in_use -= static_cast<std::int64_t>(storage->bytes_);
    stats_.cached += static_cast<std::int64_t>(storage->bytes_);
    storage->next_free_ = std::exchange(list(storage->device_, storage->size_class_), storage);
  }

  /// Back to the system.
  void unmake(Storage* storage) noexcept {
    device_free(storage->data_, storage->device_);
    {
      const std::lock_guard lock(mutex_);
      stats_.in_use -= static_cast<std::int64_t>(storage->bytes_);
    }
    delete storage;
  }

  static Storage* borrow(void* data, std::size_t bytes, Device device, Storage::Deleter deleter,
                         void* context) {
    auto* storage = new Storage;
    storage->data_ = data;
    storage->bytes_ = bytes;
    storage->device_ = device;
    storage->deleter_ = deleter;
    storage->context_ = context;
    return storage;
  }

  static void end_borrow(Storage* storage) noexcept {
    if (storage->deleter_) storage->deleter_(storage->data_, storage->context_);
    delete storage;
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  static constexpr std::size_t max_devices = 17;  // the host and 16 GPUs a process

  Storage*& list(Device device, int size_class) {
    const std::size_t d =
        device.type == DeviceType::host ? 0 : 1 + static_cast<std::size_t>(device.index);
    return free_.at(d)[static_cast<std::size_t>(size_class)];
  }

  void count_use(std::size_t bytes) {
    stats_.in_use += static_cast<std::int64_t>(bytes);
    stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
  }

  std::mutex mutex_;
  std::array<std::array<Storage*, classes>, max_devices> free_{};
  MemoryStats stats_;
};

IntrusivePtr<Storage> Storage::allocate(std::size_t bytes, Device device) {
  return IntrusivePtr<Storage>(StorageCache::instance().take(bytes, device));
}

IntrusivePtr<Storage> Storage::allocate_uncached(std::size_t bytes, Device device) {
  return IntrusivePtr<Storage>(StorageCache::instance().make({uncached, bytes}, device));
}

IntrusivePtr<Storage> Storage::borrow(void* data, std::size_t bytes, Device device, Deleter deleter,
                                      void* context) {
  return IntrusivePtr<Storage>(StorageCache::borrow(data, bytes, device, deleter, context));
}

void Storage::release() noexcept {
  switch (size_class_) {
    case borrowed:
      StorageCache::end_borrow(this);
      break;
    case uncached:
      StorageCache::instance().unmake(this);
      break;
    default:
      StorageCache::instance().give(this);
  }
}

MemoryStats memory_stats() { return StorageCache::instance().stats(); }

}  // namespace lockstep
