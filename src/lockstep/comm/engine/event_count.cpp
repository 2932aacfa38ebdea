#include <lockstep/comm/engine/event_count.hpp>

#include <lockstep/base/futex.hpp>

namespace lockstep {

bool EventCount::wait(std::uint32_t key, std::chrono::microseconds at_most) noexcept {
  futex_wait(count_, key, at_most);  // other threads may still wait
  return count_.load(std::memory_order_acquire) != key;
}

void EventCount::wake() noexcept {
  count_.fetch_add(1, std::memory_order_release);
  futex_wake_all(count_);
}

}  // namespace lockstep
