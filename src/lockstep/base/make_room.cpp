#include <lockstep/base/make_room.hpp>

#include <sched.h>

#include <algorithm>
#include <thread>

namespace lockstep {

Clock::duration longest_pause(std::size_t crowd) noexcept {
  constexpr Clock::duration usual = std::chrono::milliseconds(1);
  constexpr Clock::duration of_a_crowd = std::chrono::milliseconds(8);
  constexpr std::chrono::microseconds look{30};
  static const auto cores = std::max(1U, std::thread::hardware_concurrency());
  return std::clamp<Clock::duration>(2 * look * crowd / cores, usual, of_a_crowd);
}

void make_room(Clock::duration waited, std::size_t crowd) {
  if (waited < pause_after) {
    sched_yield();
    return;
  }
  std::this_thread::sleep_for(std::min<Clock::duration>(waited / pause_part, longest_pause(crowd)));
}

}  // namespace lockstep
