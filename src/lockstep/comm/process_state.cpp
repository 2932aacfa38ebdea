#include <lockstep/comm/process_state.hpp>

#include <fmt/format.h>

#include <fstream>

namespace lockstep {

std::string process_state(int pid) {
  // "PID (NAME) STATE ...": the name may hold anything, so look behind its last parenthesis.
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return "is gone";
  const auto name_end = line.rfind(')');
  const char state = name_end + 2 < line.size() ? line[name_end + 2] : '?';
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
