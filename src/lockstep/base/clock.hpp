#pragma once
#include <chrono>

namespace lockstep {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Seconds since `start`.
[[nodiscard]] inline double seconds_since(Clock::time_point start) {
  return Seconds(Clock::now() - start).count();
}

}  // namespace lockstep
