#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/tensor/device.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>
#include <lockstep/tensor/runtime/size_class.hpp>
#include <lockstep/tensor/storage.hpp>

namespace lockstep {

/// While it lives, device memory that this thread allocates is named `label` in messages about
/// memory. The innermost one counts. The text must live as long.
class MemoryLabel {
 public:
  explicit MemoryLabel(std::string_view label) noexcept;
  ~MemoryLabel();
  MemoryLabel(const MemoryLabel&) = delete;
  MemoryLabel& operator=(const MemoryLabel&) = delete;

 private:
  std::string_view before_;
};

/// A piece of a device's memory, or of pinned memory of the host.
struct MemoryBlock {
  void* data = nullptr;
  void* kernel_data = nullptr;  ///< the address for kernels
  std::size_t bytes = 0;

  // The rest is the allocator's.
  /// A use of the block by a stream other than its own.
  struct Use {  // by another stream
    RuntimeStream* stream;
    int device;
    RuntimeEvent* event;  // its mark, once the block is freed
  };

  int size_class = 0;
  RuntimeStream* stream = nullptr;  // that it was allocated for; null: pinned memory
  std::vector<Use> uses;
  std::array<char, 64> label{};
  bool in_use = false;
  MemoryBlock* next = nullptr;
};

/// Memory of one device, or pinned memory for the devices of one runtime, kept for reuse. Freed
/// memory serves the next request of its size on its stream at once, because work on a stream is
/// ordered; memory that other streams used too (record_stream) is reused only after these have
/// finished their enqueued work. Thread-safe. Takes nothing from the device and allocates nothing
/// in a steady loop.
class CachingAllocator {
 public:
  /// The allocator of one device, or, for the host, of pinned memory.
  CachingAllocator(DeviceRuntime& runtime, Device device);
  /// Frees unused memory.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// The process' one for a device. Throws InputError if there is no such device.
  [[nodiscard]] static CachingAllocator& of(Device device);
  /// The process' one for pinned memory that the devices of this type copy from and to.
  [[nodiscard]] static CachingAllocator& pinned(DeviceType type);

  /// At least `bytes` uninitialized bytes, for work on `stream`. If memory is exhausted, or the
  /// limit is reached, it frees the cached memory and tries once more. Throws OutOfMemoryError with
  /// the memory's users and sizes.
  [[nodiscard]] MemoryBlock* allocate(std::size_t bytes, RuntimeStream* stream);
  void free(MemoryBlock* block) noexcept;
  /// `stream`, one of `device`, uses the block too: after its release the block is not reused
  /// before the stream has finished its enqueued work.
  void record_stream(MemoryBlock* block, RuntimeStream* stream, int device);

  /// The use of a stream's memory: by any work, or by a graph alone (DeviceGraph).
  enum class Pool : std::uint8_t {
    shared,     ///< by any work of the stream
    recording,  ///< the stream is captured: the device may be asked for nothing meanwhile
    sealed      ///< a captured graph uses it: freed memory keeps its contents
  };
  /// Memory of a stream that is not shared stays with it, whoever is short of memory.
  void set_pool(RuntimeStream* stream, Pool pool);

  /// Gives back all that is kept.
  void flush();
  /// Limits the memory in use and cached together; 0: no limit.
  void set_limit(std::size_t bytes);
  [[nodiscard]] MemoryStats stats();
  /// "sim:0 holds 3 MiB: 2 MiB of 'conv1.weight', 1 MiB without a label; 4 MiB are kept for reuse".
  [[nodiscard]] std::string usage();

 private:
  using Lock = std::unique_lock<std::mutex>;
  /// The memory kept for a stream.
  struct Kept {
    std::array<MemoryBlock*, SizeClass::count> lists{};
    Pool pool = Pool::shared;
  };

  [[nodiscard]] Kept& kept_for(RuntimeStream* stream, const Lock& lock);
  [[nodiscard]] bool is_sealed(RuntimeStream* stream) noexcept;
  [[nodiscard]] MemoryBlock* take_kept(const SizeClass& size, RuntimeStream* stream,
                                       const Lock& lock);
  [[nodiscard]] MemoryBlock* take_new(const SizeClass& size, RuntimeStream* stream, Lock& lock);
  [[nodiscard]] void* from_runtime(std::size_t bytes, Lock& lock);
  void set_label(MemoryBlock& block, const Lock& lock);
  void keep(MemoryBlock& block, const Lock& lock) noexcept;
  void keep_completed(Lock& lock);
  void wait_for_awaiting(Lock& lock);
  void give_back_kept(Lock& lock) noexcept;
  void mark_uses(MemoryBlock& block) noexcept;
  [[nodiscard]] bool is_over(const MemoryBlock& block) const noexcept;
  void end_uses(MemoryBlock& block, const Lock& lock) noexcept;
  void retire(const MemoryBlock& block) noexcept;
  [[noreturn]] void refuse_in_capture(std::size_t bytes) const;
  [[nodiscard]] bool is_pinned() const noexcept { return device_.type == DeviceType::host; }
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::string usage(const Lock& lock) const;
  [[noreturn]] void refuse(std::size_t bytes, const Lock& lock) const;

  DeviceRuntime& runtime_;
  Device device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<MemoryBlock>> blocks_;
  std::vector<std::pair<RuntimeStream*, std::unique_ptr<Kept>>> kept_;
  std::atomic<int> sealed_ = 0;  // streams
  MemoryBlock* awaiting_ = nullptr;
  MemoryBlock* empty_ = nullptr;  // records whose memory was freed
  std::array<std::vector<RuntimeEvent*>, max_devices_of_a_type> free_events_;  // by device
  MemoryStats stats_;
};

}  // namespace lockstep
