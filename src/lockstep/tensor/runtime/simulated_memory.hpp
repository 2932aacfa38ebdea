#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>

namespace lockstep {

/// The memory of one simulated device, mapped twice. The addresses that tensors hold allow no
/// access: host code that follows one gets SIGSEGV, and a sentence on stderr that names the block.
/// Kernels and copies go by the other addresses, a constant distance away, which allow it while the
/// device works, between open() and close(). Thread-safe.
class SimulatedMemory {
 public:
  static constexpr std::size_t alignment = 256;
  static constexpr unsigned char poison = 0xFF;  // a NaN in every floating dtype

  explicit SimulatedMemory(int device);
  ~SimulatedMemory();
  SimulatedMemory(const SimulatedMemory&) = delete;
  SimulatedMemory& operator=(const SimulatedMemory&) = delete;

  /// Poisoned bytes; null when `capacity` bytes are not free in one piece.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// Also gives the pages back to the system.
  void free(void* data) noexcept;
  void set_label(void* data, std::string_view label) noexcept;
  /// Limits the bytes handed out from now on.
  void set_capacity(std::size_t bytes);

  /// Until as many calls of close(), kernels may use their addresses.
  void open() noexcept;
  void close() noexcept;

  [[nodiscard]] bool contains(const void* address) const noexcept {
    return is_in(forbidden_, address);
  }
  [[nodiscard]] bool contains_for_kernels(const void* address) const noexcept {
    return is_in(allowed_, address);
  }
  [[nodiscard]] std::byte* kernel_address(const void* address) const noexcept {
    return allowed_ + (static_cast<const std::byte*>(address) - forbidden_);
  }
  /// Writes the sentence about an access to `address`, one of either kind, to stderr. For signal
  /// handlers.
  void report(const void* address) noexcept;

 private:
  static constexpr std::size_t reserved = std::size_t{1} << 34U;  // of addresses, not of memory

  struct Block {
    std::size_t bytes = 0;
    std::array<char, 64> label{};
  };

  [[nodiscard]] static bool is_in(const std::byte* begin, const void* address) noexcept {
    const auto* at = static_cast<const std::byte*>(address);
    return at >= begin && at < begin + reserved;
  }

  int device_;
  std::byte* forbidden_ = nullptr;
  std::byte* allowed_ = nullptr;
  int file_ = -1;
  std::mutex mutex_;
  std::map<std::size_t, Block> blocks_;       // by offset
  std::map<std::size_t, std::size_t> holes_;  // bytes by offset
  std::size_t in_use_ = 0, capacity_ = reserved;
  std::mutex access_mutex_;
  int users_ = 0;
};

/// Installs a SIGSEGV handler: accesses to `memory` are reported, and then, like all others, passed
/// to the previous handler.
void report_faults_of(SimulatedMemory& memory);

}  // namespace lockstep
