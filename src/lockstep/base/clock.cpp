#include <lockstep/base/clock.hpp>

#include <time.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace lockstep {
namespace {

/// How long this process was there, as the system knows it; 0 where it does not say.
double age_of_process() {
  std::ifstream file("/proc/self/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  // The second field is the program's name in parentheses, which may hold anything.
  const auto end_of_name = stat.rfind(')');
  if (end_of_name == std::string::npos) return 0;
  constexpr int fields_between = 19;  // from the third to the one before "starttime", the 22nd
  std::istringstream fields(stat.substr(end_of_name + 1));
  std::string skipped;
  for (int i = 0; i < fields_between; ++i) fields >> skipped;
  double start_ticks = 0;
  timespec since_boot{};
  if (!(fields >> start_ticks) || clock_gettime(CLOCK_BOOTTIME, &since_boot) != 0) return 0;
  return static_cast<double>(since_boot.tv_sec) + 1e-9 * static_cast<double>(since_boot.tv_nsec) -
         start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

double seconds_since_process_start() {
  static const auto start =
      Clock::now() - std::chrono::duration_cast<Clock::duration>(Seconds(age_of_process()));
  return seconds_since(start);
}

}  // namespace lockstep
