#pragma once
#include <lockstep/base/clock.hpp>

namespace lockstep {

/// The moment `time` from now, a hundred years ahead at most: bounded().
template <class Rep, class Period>
[[nodiscard]] Clock::time_point deadline_in(std::chrono::duration<Rep, Period> time) {
  return Clock::now() + bounded(time);
}

}  // namespace lockstep
