#pragma once
#include <chrono>

namespace lockstep {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Seconds since `start`.
[[nodiscard]] inline double seconds_since(Clock::time_point start) {
  return Seconds(Clock::now() - start).count();
}

/// Seconds since the system started this process, long before main(): from /proc/self/stat, which
/// counts in ticks of 10 ms, rounded down, so that this is up to 10 ms too much and never too
/// little. Where there is no such file, seconds since the first call.
[[nodiscard]] double seconds_since_process_start();

}  // namespace lockstep
