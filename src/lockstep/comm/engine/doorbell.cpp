#include <lockstep/comm/engine/doorbell.hpp>

#include <lockstep/base/futex.hpp>

namespace lockstep {

bool Doorbell::sleep(std::uint32_t heard, std::chrono::microseconds at_most) noexcept {
  futex_wait(rings_, heard, at_most);  // others may still listen
  return rings_.load(std::memory_order_acquire) != heard;
}

void Doorbell::wake() noexcept {
  rings_.fetch_add(1, std::memory_order_release);
  futex_wake_all(rings_);
}

}  // namespace lockstep
