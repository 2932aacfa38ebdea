#include <lockstep/base/make_room.hpp>

#include <sched.h>

#include <algorithm>
#include <thread>

namespace lockstep {

void make_room(Clock::duration waited, std::size_t crowd) {
  constexpr std::chrono::milliseconds awake{5};
  constexpr Clock::duration usual = std::chrono::milliseconds(1);
  constexpr Clock::duration of_a_crowd = std::chrono::milliseconds(8);
  constexpr std::chrono::microseconds look{30};
  if (waited < awake) {
    sched_yield();
    return;
  }
  static const auto cores = std::max(1U, std::thread::hardware_concurrency());
  const auto longest = std::clamp<Clock::duration>(2 * look * crowd / cores, usual, of_a_crowd);
  std::this_thread::sleep_for(std::min<Clock::duration>(waited / 64, longest));
}

}  // namespace lockstep
