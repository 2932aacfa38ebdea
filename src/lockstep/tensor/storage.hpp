#pragma once
#include <cstddef>
#include <cstdint>

#include <lockstep/base/intrusive_ptr.hpp>
#include <lockstep/tensor/device.hpp>

namespace lockstep {

class CachingAllocator;
struct MemoryBlock;
class Stream;

/// A run of bytes on one device, owned by the tensors that view it. It comes from a caching
/// allocator (allocate) or belongs to someone else (borrow: a shared window, a user's array).
class Storage : public RefCounted<Storage> {
 public:
  using Deleter = void (*)(void* data, void* context) noexcept;

  /// At least `bytes` bytes, aligned to 64; contents unspecified. Thread-safe. A freed storage is
  /// kept and handed out again, so a steady loop never reaches the system's allocator. Memory of a
  /// device is for work on this thread's current stream, see record_stream.
  /// Throws Error naming the size when memory is short.
  [[nodiscard]] static IntrusivePtr<Storage> allocate(std::size_t bytes, Device device = {});

  /// The same on the host, but the memory returns to the system with its last owner: for memory
  /// that grows by replacement, whose earlier pieces would never be reused.
  [[nodiscard]] static IntrusivePtr<Storage> allocate_uncached(std::size_t bytes);

  /// Host memory for copies to and from devices of this type that overlap with the host's work.
  [[nodiscard]] static IntrusivePtr<Storage> allocate_pinned(std::size_t bytes, DeviceType type);

  /// Wraps memory that is released by `deleter(data, context)` (may be null) with the last owner.
  [[nodiscard]] static IntrusivePtr<Storage> borrow(void* data, std::size_t bytes, Device device,
                                                    Deleter deleter = nullptr,
                                                    void* context = nullptr);

  [[nodiscard]] void* data() const noexcept { return data_; }
  /// The address for kernels: data(), except for memory of a simulated device.
  [[nodiscard]] void* kernel_data() const noexcept { return kernel_data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] bool is_pinned() const noexcept { return size_class_ == pinned; }
  /// Whether it is borrowed, and `deleter` will release it.
  [[nodiscard]] bool is_released_by(Deleter deleter) const noexcept {
    return size_class_ == borrowed && deleter_ == deleter;
  }
  /// `stream` uses it too: after the last owner releases the memory, it is not reused before the
  /// stream has finished the work enqueued by then. Of device and pinned memory; nothing for any
  /// other.
  void record_stream(const Stream& stream) const;
  /// Moves its bytes to memory of another device, for all tensors that view it, after the work on
  /// the devices' current streams. Not of borrowed memory: throws Error.
  void move_to(Device device);

  /// Promises that the bytes between a tensor in it and the next multiple of padding_bytes are
  /// unused: elementwise kernels over contiguous tensors may run over them.
  void mark_padded() noexcept { padded_ = true; }
  [[nodiscard]] bool is_padded() const noexcept { return padded_; }
  static constexpr std::size_t padding_bytes = 64;  // as vector loads like it
  /// The multiple of padding_bytes that `bytes` take with their padding.
  [[nodiscard]] static constexpr std::size_t padded(std::size_t bytes) noexcept {
    return (bytes + padding_bytes - 1) / padding_bytes * padding_bytes;
  }

 private:
  friend class RefCounted<Storage>;
  friend class StorageCache;
  Storage() = default;
  ~Storage() = default;
  void release() noexcept;
  [[nodiscard]] CachingAllocator& allocator() const;

  static constexpr int borrowed = -1, uncached = -2, of_device = -3, pinned = -4;

  void* data_ = nullptr;
  void* kernel_data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_;
  bool padded_ = false;
  int size_class_ = borrowed;
  Deleter deleter_ = nullptr;
  void* context_ = nullptr;
  MemoryBlock* block_ = nullptr;  // of a device, or pinned
  DeviceType pinned_for_ = DeviceType::host;
  Storage* next_free_ = nullptr;
};

/// Counters of a caching allocator so far, in bytes unless named otherwise.
struct MemoryStats {
  std::int64_t in_use = 0;
  std::int64_t peak_in_use = 0;
  std::int64_t cached = 0;              ///< held for reuse
  std::int64_t system_allocations = 0;  ///< calls that reached the system: zero in a steady loop
  // Of a device's only:
  std::int64_t awaiting = 0;  ///< freed, but other streams still use it; not in `cached`
  std::int64_t flushes = 0;   ///< times that all of `cached` was given back to get a block
  std::int64_t limit = 0;     ///< 0: the device's memory
};
/// Of the host's caching allocator, or a device's.
[[nodiscard]] MemoryStats memory_stats(Device device = {});

}  // namespace lockstep
