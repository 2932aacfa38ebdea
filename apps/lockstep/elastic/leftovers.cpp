#include "leftovers.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <string_view>
#include <system_error>

#include <lockstep/base/process_state.hpp>

namespace lockstep::elastic {
namespace fs = std::filesystem;
namespace {

constexpr const char* name = "LOCKSTEP_SUPERVISOR";

std::string whole_path(const fs::path& dir) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(fs::absolute(dir, error), error);
  return whole.string();
}

bool is_over(int pid) {
  const ProcessState state = process_state(pid);
  return state == ProcessState::gone || state == ProcessState::died;
}

/// Parses "PID START FOLDER": true if that supervisor is another one, has ended, and ran `dir`.
bool is_of_a_dead_one(std::string_view text, std::string_view dir) {
  int pid = 0;
  std::uint64_t start = 0;
  const char* const end = text.data() + text.size();
  const auto [after_pid, bad_pid] = std::from_chars(text.data(), end, pid);
  if (bad_pid != std::errc() || after_pid == end) return false;
  const auto [after_start, bad_start] = std::from_chars(after_pid + 1, end, start);
  if (bad_start != std::errc() || after_start == end) return false;
  if (std::string_view(after_start + 1, static_cast<std::size_t>(end - after_start - 1)) != dir)
    return false;
  return is_over(pid) || process_start(pid) != start;
}

}  // namespace

Environment mark_of_this_supervisor(const fs::path& run_dir) {
  const int pid = getpid();
  return {{name, fmt::format("{} {} {}", pid, process_start(pid), whole_path(run_dir))}};
}

std::vector<int> leftovers(const fs::path& run_dir) {
  const std::string dir = whole_path(run_dir);
  std::vector<int> found;
  for_each_process([&](int pid) {
    if (is_of_a_dead_one(variable_of(pid, name), dir) && !is_over(pid)) found.push_back(pid);
  });
  return found;
}

}  // namespace lockstep::elastic
