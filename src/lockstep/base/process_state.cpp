#include <lockstep/base/process_state.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>

#include <lockstep/base/for_each_entry.hpp>

namespace lockstep {
namespace {

/// /proc/PID/stat from its third field on; empty if there is no such process. "PID (NAME) STATE
/// ...": the name may contain any characters, so parse from its last parenthesis.
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

int parent_of(int pid) {
  std::istringstream fields(stat_of(pid));
  std::string state;
  int parent = 0;
  return fields >> state >> parent ? parent : 0;
}

std::string variable_of(int pid, const std::string& name) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  const std::string begin = name + "=";
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.starts_with(begin)) return entry.substr(begin.size());
  }
  return {};
}

void for_each_process(const std::function<void(int pid)>& visit) {
  const auto look = [&](const std::filesystem::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    const char* const end = name.data() + name.size();
    int pid = 0;
    const auto [behind, error] = std::from_chars(name.data(), end, pid);
    if (error == std::errc() && behind == end) visit(pid);
  };
  std::error_code ignored;
  for_each_entry("/proc", look, ignored);
}

ProcessState process_state(int pid) {
  const std::string fields = stat_of(pid);
  if (fields.empty()) return ProcessState::gone;
  switch (fields.front()) {
    case 'R':
      return ProcessState::running;
    case 'S':
      return ProcessState::waiting;
    case 'D':
      return ProcessState::waiting_for_disk;
    case 'T':
      return ProcessState::stopped;
    case 't':
      return ProcessState::traced;
    case 'Z':
    case 'X':
      return ProcessState::died;
    default:
      return ProcessState::other;
  }
}

const char* words(ProcessState state) noexcept {
  switch (state) {
    case ProcessState::unknown:
      return "";
    case ProcessState::running:
      return "is running";
    case ProcessState::waiting:
      return "is waiting";
    case ProcessState::waiting_for_disk:
      return "waits for a disk (state D)";
    case ProcessState::stopped:
      return "is stopped (state T)";
    case ProcessState::traced:
      return "is stopped (state t)";
    case ProcessState::other:
      return "is in an unusual state";
    case ProcessState::died:
      return "has died";
    case ProcessState::gone:
      return "is gone";
  }
  return "";
}

bool can_run(ProcessState state) noexcept {
  return state != ProcessState::stopped && state != ProcessState::traced &&
         state != ProcessState::died && state != ProcessState::gone;
}

}  // namespace lockstep
