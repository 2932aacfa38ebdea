#include <lockstep/base/clock.hpp>

#include <time.h>
#include <unistd.h>

#include <array>
#include <ctime>

#include <lockstep/base/process_state.hpp>

namespace lockstep {
namespace {

/// The process's age at the first call; 0 if the system does not tell it.
double age_of_process() {
  const std::uint64_t start_ticks = process_start(getpid());
  timespec since_boot{};
  if (start_ticks == 0 || clock_gettime(CLOCK_BOOTTIME, &since_boot) != 0) return 0;
  return static_cast<double>(since_boot.tv_sec) + 1e-9 * static_cast<double>(since_boot.tv_nsec) -
         static_cast<double>(start_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

double seconds_since_process_start() {
  static const auto start =
      Clock::now() - std::chrono::duration_cast<Clock::duration>(Seconds(age_of_process()));
  return seconds_since(start);
}

std::string utc_text(const char* format, std::chrono::system_clock::time_point moment) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(moment);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

}  // namespace lockstep
