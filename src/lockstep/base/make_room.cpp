#include <lockstep/base/make_room.hpp>

#include <sched.h>

#include <algorithm>
#include <thread>

namespace lockstep {

Clock::duration longest_pause(std::size_t crowd) noexcept {
  constexpr Clock::duration usual = std::chrono::milliseconds(1);
  constexpr Clock::duration of_a_crowd = std::chrono::milliseconds(50);
  constexpr std::chrono::microseconds look{30};
  static const auto cores = std::max(1U, std::thread::hardware_concurrency());
  return std::clamp<Clock::duration>(2 * look * crowd / cores, usual, of_a_crowd);
}

Clock::duration shortest_pause(std::size_t crowd) noexcept {
  constexpr Clock::duration of_a_crowd = std::chrono::milliseconds(8);
  const Clock::duration longest = longest_pause(crowd);
  return longest < of_a_crowd ? Clock::duration::zero() : longest;
}

void make_room(Clock::duration waited, std::size_t crowd) {
  if (waited < pause_after) {
    sched_yield();
    return;
  }
  std::this_thread::sleep_for(std::clamp<Clock::duration>(
      waited / pause_part, shortest_pause(crowd), longest_pause(crowd)));
}

}  // namespace lockstep
