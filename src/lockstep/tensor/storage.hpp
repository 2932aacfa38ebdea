#pragma once
#include <cstddef>
#include <cstdint>

#include <lockstep/base/intrusive_ptr.hpp>
#include <lockstep/tensor/device.hpp>

namespace lockstep {

/// A run of bytes on one device, owned by the tensors that view it. It comes from the caching
/// allocator (allocate) or belongs to someone else (borrow: a shared window, a user's array).
class Storage : public RefCounted<Storage> {
 public:
  using Deleter = void (*)(void* data, void* context) noexcept;

  /// At least `bytes` bytes, aligned to 64; contents unspecified. Thread-safe. A freed storage is
  /// kept and handed out again, so a steady loop never reaches the system's allocator.
  /// Throws Error naming the size when memory is short.
  [[nodiscard]] static IntrusivePtr<Storage> allocate(std::size_t bytes, Device device = {});

  /// The same, but it goes back to the system with its last owner: for memory that grows by being
  /// replaced, whose earlier pieces nobody would ask for again.
  [[nodiscard]] static IntrusivePtr<Storage> allocate_uncached(std::size_t bytes,
                                                               Device device = {});

  /// Wraps memory that is released by `deleter(data, context)` (may be null) with the last owner.
  [[nodiscard]] static IntrusivePtr<Storage> borrow(void* data, std::size_t bytes, Device device,
                                                    Deleter deleter = nullptr,
                                                    void* context = nullptr);

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] Device device() const noexcept { return device_; }

  /// Promises that what lies between one tensor in it and the next multiple of padding_bytes is
  /// nobody's: whoever treats neighbours alike may run over it.
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

  static constexpr int borrowed = -1, uncached = -2;

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_;
  bool padded_ = false;
  int size_class_ = borrowed;
  Deleter deleter_ = nullptr;
  void* context_ = nullptr;
  Storage* next_free_ = nullptr;
};

/// What the caching allocator did so far, in bytes unless named otherwise.
struct MemoryStats {
  std::int64_t in_use = 0;
  std::int64_t peak_in_use = 0;
  std::int64_t cached = 0;              ///< held for reuse
  std::int64_t system_allocations = 0;  ///< calls that reached the system: zero in a steady loop
};
[[nodiscard]] MemoryStats memory_stats();

}  // namespace lockstep
