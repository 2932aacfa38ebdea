#include <lockstep/base/futex.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <limits>

namespace lockstep {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);  // as the system wants it

// Not a private futex: another process may wake it.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                std::chrono::microseconds at_most) noexcept {
  timespec time{};
  time.tv_sec = static_cast<time_t>(at_most.count() / 1'000'000);
  time.tv_nsec = static_cast<long>(at_most.count() % 1'000'000 * 1000);
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

}  // namespace lockstep
