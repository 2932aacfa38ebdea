#include <lockstep/comm/flight/process_state.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace lockstep {
namespace {

/// /proc/PID/stat from its third field on; empty if there is no such process. "PID (NAME) STATE
/// ...": the name may hold anything, so look behind its last parenthesis.
std::string stat_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return "";
  return line.substr(std::min(line.rfind(')') + 2, line.size()));
}

}  // namespace

std::uint64_t process_start(int pid) {
  constexpr int field = 22, first = 3;
  std::istringstream fields(stat_of(pid));
  std::string text;
  for (int i = first; i <= field; ++i) fields >> text;
  return fields ? std::stoull(text) : 0;
}

std::string process_state(int pid) {
  const std::string fields = stat_of(pid);
  if (fields.empty()) return "is gone";
  const char state = fields.front();
  switch (state) {
    case 'R':
      return "is running";
    case 'S':
      return "is waiting";
    case 'D':
      return "waits for a disk (state D)";
    case 'T':
    case 't':
      return fmt::format("is stopped (state {})", state);
    case 'Z':
    case 'X':
      return "has died";
    default:
      return fmt::format("is in state {}", state);
  }
}

}  // namespace lockstep
