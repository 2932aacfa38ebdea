#pragma once
#include <chrono>
#include <string>

namespace lockstep {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// `time`, but at most a hundred years: values like milliseconds::max() may mean "never", and the
/// clock's nanoseconds overflow after 292.
template <class Rep, class Period>
[[nodiscard]] constexpr Clock::duration bounded(std::chrono::duration<Rep, Period> time) {
  constexpr std::chrono::hours longest{24 * 365 * 100};
  return Seconds(time) < longest ? std::chrono::duration_cast<Clock::duration>(time)
                                 : Clock::duration(longest);
}

/// The moment `time` from now: bounded().
template <class Rep, class Period>
[[nodiscard]] Clock::time_point deadline_in(std::chrono::duration<Rep, Period> time) {
  return Clock::now() + bounded(time);
}

/// Seconds since `start`.
[[nodiscard]] inline double seconds_since(Clock::time_point start) {
  return Seconds(Clock::now() - start).count();
}

/// Seconds since the system started this process, long before main(): from /proc/self/stat, which
/// counts ticks of 10 ms, rounded down, so the result is up to 10 ms too large and never too small.
/// Without that file, seconds since the first call.
[[nodiscard]] double seconds_since_process_start();

/// A moment in UTC, in the words of std::strftime: utc_text("%Y-%m-%dT%H:%M:%SZ") is
/// "2026-11-24T09:05:00Z" (ISO 8601). At most 63 characters, or it is empty.
[[nodiscard]] std::string utc_text(
    const char* format,
    std::chrono::system_clock::time_point moment = std::chrono::system_clock::now());

}  // namespace lockstep
