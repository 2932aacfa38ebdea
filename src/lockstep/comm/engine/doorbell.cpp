#include <lockstep/comm/engine/doorbell.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <limits>

namespace lockstep {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);  // as the system wants it

bool Doorbell::sleep(std::uint32_t heard, std::chrono::microseconds at_most) noexcept {
  timespec time{};
  time.tv_sec = static_cast<time_t>(at_most.count() / 1'000'000);
  time.tv_nsec = static_cast<long>(at_most.count() % 1'000'000 * 1000);
  // Not the private kind: the one who rings may be another process.
  syscall(SYS_futex, &rings_, FUTEX_WAIT, heard, &time, nullptr, 0);  // others may still listen
  return rings_.load(std::memory_order_acquire) != heard;
}

void Doorbell::wake() noexcept {
  rings_.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &rings_, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

}  // namespace lockstep
