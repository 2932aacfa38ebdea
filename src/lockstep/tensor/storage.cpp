#include <lockstep/tensor/storage.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <lockstep/base/failure.hpp>
#include <lockstep/tensor/absent_memory.hpp>
#include <lockstep/tensor/device_graph.hpp>
#include <lockstep/tensor/device_memory.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep {

/// Freed host memory by size class, and records of storage on devices. One mutex: in a steady loop
/// an allocation is a list pop.
class StorageCache {
 public:
  static StorageCache& instance() {
    static StorageCache* cache = new StorageCache;  // tensors may outlive main()
    return *cache;
  }

  Storage* take(std::size_t bytes) {
    const SizeClass size = SizeClass::of(bytes);
    if (size.index >= SizeClass::count) {
      throw Error("a tensor of " + std::to_string(bytes) + " bytes is beyond any machine's memory");
    }
    {
      const std::lock_guard lock(mutex_);
      if (Storage*& head = free_[static_cast<std::size_t>(size.index)]) {
        Storage* storage = std::exchange(head, head->next_free_);
        stats_.cached -= static_cast<std::int64_t>(storage->bytes_);
        count_use(storage->bytes_);
        return storage;
      }
    }
    return make(size);
  }

  /// Allocates from the system. The storage keeps `size.index`, the class of its free list.
  Storage* make(SizeClass size) {
    auto* storage = new Storage;
    storage->data_ = storage->kernel_data_ = host_malloc(size.bytes);
    if (!storage->data_) {
      delete storage;
      throw OutOfMemoryError(
          "out of memory: " + std::to_string(size.bytes >> 20U) +
          " MiB for one tensor on host could not be allocated while tensors already hold " +
          std::to_string(memory_stats().in_use >> 20U) +
          " MiB. Use a smaller batch or a smaller model, or more ranks.");
    }
    storage->bytes_ = size.bytes;
    storage->size_class_ = size.index;
    const std::lock_guard lock(mutex_);
    ++stats_.system_allocations;
    count_use(size.bytes);
    return storage;
  }

  /// The storage of a block that the allocator of a device, or of pinned memory, has returned.
  Storage* hold(MemoryBlock* block, Device device, int size_class) {
    Storage* storage = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (records_) storage = std::exchange(records_, records_->next_free_);
    }
    if (!storage) storage = new Storage;
    storage->block_ = block;
    storage->data_ = block->data;
    storage->kernel_data_ = block->kernel_data;
    storage->bytes_ = block->bytes;
    storage->device_ = device;
    storage->size_class_ = size_class;
    return storage;
  }

  void let_go(Storage* storage) noexcept {
    storage->padded_ = false;
    const std::lock_guard lock(mutex_);
    storage->next_free_ = std::exchange(records_, storage);
  }

  void give(Storage* storage) noexcept {
    storage->padded_ = false;
    const std::lock_guard lock(mutex_);
    stats_.in_use -= static_cast<std::int64_t>(storage->bytes_);
    stats_.cached += static_cast<std::int64_t>(storage->bytes_);
    storage->next_free_ =
        std::exchange(free_[static_cast<std::size_t>(storage->size_class_)], storage);
  }

  /// Returns the memory to the system.
  void unmake(Storage* storage) noexcept {
    host_free(storage->data_);
    {
      const std::lock_guard lock(mutex_);
      stats_.in_use -= static_cast<std::int64_t>(storage->bytes_);
    }
    delete storage;
  }

  static Storage* borrow(void* data, std::size_t bytes, Device device, Storage::Deleter deleter,
                         void* context) {
    auto* storage = new Storage;
    storage->data_ = storage->kernel_data_ = data;
    if (device.type == DeviceType::sim) {  // the only device type with two addresses
      storage->kernel_data_ = runtime_of(device.type).kernel_address(data);
    }
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

  static void swap_memory(Storage& a, Storage& b) noexcept {
    std::swap(a.data_, b.data_);
    std::swap(a.kernel_data_, b.kernel_data_);
    std::swap(a.bytes_, b.bytes_);
    std::swap(a.device_, b.device_);
    std::swap(a.size_class_, b.size_class_);
    std::swap(a.deleter_, b.deleter_);
    std::swap(a.context_, b.context_);
    std::swap(a.block_, b.block_);
    std::swap(a.pinned_for_, b.pinned_for_);
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  void count_use(std::size_t bytes) {
    stats_.in_use += static_cast<std::int64_t>(bytes);
    stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
  }

  std::mutex mutex_;
  std::array<Storage*, SizeClass::count> free_{};
  Storage* records_ = nullptr;
  MemoryStats stats_;
};

IntrusivePtr<Storage> Storage::allocate(std::size_t bytes, Device device) {
  auto& cache = StorageCache::instance();
  if (device.type == DeviceType::host) return IntrusivePtr<Storage>(cache.take(bytes));
  MemoryBlock* const block =
      CachingAllocator::of(device).allocate(bytes, current_stream(device).queue());
  return IntrusivePtr<Storage>(cache.hold(block, device, of_device));
}

IntrusivePtr<Storage> Storage::allocate_uncached(std::size_t bytes) {
  return IntrusivePtr<Storage>(StorageCache::instance().make({uncached, bytes}));
}

IntrusivePtr<Storage> Storage::allocate_pinned(std::size_t bytes, DeviceType type) {
  // It would serve others after its release, and each replay would copy what they have written.
  if (DeviceGraph::capturing())
    throw Error(
        "memory is pinned before a graph's capture, not in it, and lives as long as the "
        "graph");
  MemoryBlock* const block = CachingAllocator::pinned(type).allocate(bytes, nullptr);
  Storage* const storage = StorageCache::instance().hold(block, Device{}, pinned);
  storage->pinned_for_ = type;
  return IntrusivePtr<Storage>(storage);
}

IntrusivePtr<Storage> Storage::borrow(void* data, std::size_t bytes, Device device, Deleter deleter,
                                      void* context) {
  return IntrusivePtr<Storage>(StorageCache::borrow(data, bytes, device, deleter, context));
}

void Storage::record_stream(const Stream& stream) const {
  if (!block_ || !stream.queue()) return;
  allocator().record_stream(block_, stream.queue(), stream.device().index);
}

void Storage::move_to(Device device) {
  if (device == device_) return;
  if (size_class_ == borrowed) {
    throw Error("memory that the tensor does not own cannot move to " + to_string(device) +
                ": clone the tensor first");
  }
  const IntrusivePtr<Storage> there = allocate(bytes_, device);
  device_copy(there->data_, device, data_, device_, bytes_);
  StorageCache::swap_memory(*this, *there);
}

void swap_memory(Storage& a, Storage& b) noexcept { StorageCache::swap_memory(a, b); }

CachingAllocator& Storage::allocator() const {
  return size_class_ == pinned ? CachingAllocator::pinned(pinned_for_)
                               : CachingAllocator::of(device_);
}

void Storage::release() noexcept {
  if (size_class_ >= 0) [[likely]] {
    return StorageCache::instance().give(this);
  }
  switch (size_class_) {
    case borrowed:
      return StorageCache::end_borrow(this);
    case uncached:
      return StorageCache::instance().unmake(this);
    default:
      allocator().free(std::exchange(block_, nullptr));
      StorageCache::instance().let_go(this);
  }
}

MemoryStats memory_stats(Device device) {
  return device.type == DeviceType::host ? StorageCache::instance().stats()
                                         : CachingAllocator::of(device).stats();
}

}  // namespace lockstep
