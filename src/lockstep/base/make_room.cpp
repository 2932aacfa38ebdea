#include <lockstep/base/make_room.hpp>

#include <sched.h>

#include <algorithm>
#include <thread>

namespace lockstep {

void make_room(Clock::duration waited) {
  constexpr std::chrono::milliseconds awake{5}, longest{1};
  if (waited < awake) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::min<Clock::duration>(waited / 64, longest));
  }
}

}  // namespace lockstep
