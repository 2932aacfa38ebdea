#include <lockstep/train/slurm_time.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <string>
#include <system_error>

extern char** environ;

namespace lockstep::train {
namespace {

constexpr int patience_ms = 30'000, look_ms = 100;

/// What a program prints, up to a line; empty if it cannot be started or says nothing in time. By
/// posix_spawn, which copies no memory: MPI's may not be copied.
std::string answer_of(std::array<const char*, 6> command, const std::stop_token& stop) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = posix_spawnp(&child, command[0], &actions, nullptr,
                                 const_cast<char* const*>(command.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string answer;
  if (error == 0) {
    pollfd readable{ends[0], POLLIN, 0};
    std::array<char, 64> buffer{};
    int status = 0;
    for (int ms = 0; status == 0 && ms < patience_ms && !stop.stop_requested(); ms += look_ms)
      status = ::poll(&readable, 1, look_ms);
    if (status > 0) {
      const auto count = ::read(ends[0], buffer.data(), buffer.size());
      if (count > 0) answer.assign(buffer.data(), static_cast<std::size_t>(count));
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  ::close(ends[0]);
  return answer.substr(0, answer.find('\n'));
}

}  // namespace

std::optional<double> seconds_of_slurm_time(std::string_view text) {
  double seconds = 0, part = 0;
  int colons = 0;
  bool days = false;
  const char *at = text.data(), *const end = at + text.size();
  while (true) {
    int number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) return std::nullopt;
    part = number;
    at = next;
    if (at == end) break;
    if (*at == '-' && !days && colons == 0) {
      seconds = part * 24;
      days = true;
    } else if (*at == ':') {
      seconds = (seconds + part) * 60;
      ++colons;
    } else {
      return std::nullopt;
    }
    ++at;
  }
  if (colons != 2 && (days || colons != 1)) return std::nullopt;
  return seconds + part;
}

std::optional<double> seconds_until(std::string_view time, std::int64_t now) {
  std::int64_t end = 0;
  const auto [rest, error] = std::from_chars(time.data(), time.data() + time.size(), end);
  const bool digits = !time.empty() && rest == time.data() + time.size() && time[0] != '-';
  if (digits && error == std::errc::result_out_of_range)
    return std::numeric_limits<double>::infinity();
  if (!digits || error != std::errc() || end <= now) return std::nullopt;
  return static_cast<double>(end - now);
}

std::optional<double> seconds_left_in_slurm_job(const std::stop_token& stop) {
  const char* const job = std::getenv("SLURM_JOB_ID");
  if (!job) return std::nullopt;
  if (const char* const end = std::getenv("SLURM_JOB_END_TIME")) {
    if (const auto left = seconds_until(end, std::time(nullptr))) return left;
  }
  return seconds_of_slurm_time(
      answer_of({"squeue", "--noheader", "--format=%L", "--jobs", job, nullptr}, stop));
}

}  // namespace lockstep::train
