#include <lockstep/train/run/helper_program.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/descriptor.hpp>

extern char** environ;

namespace lockstep::train {
namespace {

constexpr std::size_t most_kept = 4096;
constexpr int look_ms = 20;

/// By posix_spawn, which copies no memory: MPI's may not be copied. 0 if there is no such program.
pid_t start_helper(const std::vector<std::string>& command, const std::filesystem::path& folder,
                   int output) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawnattr_t group;
  posix_spawnattr_init(&group);
  posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int error = posix_spawnp(&child, words.front(), &actions, &group, words.data(), environ);
  posix_spawnattr_destroy(&group);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? child : 0;
}

/// Waits a moment for output and takes it. False once there will be no more.
bool take(int end, std::string& output) {
  pollfd readable{end, POLLIN, 0};
  if (::poll(&readable, 1, look_ms) <= 0) return true;
  std::array<char, 1024> buffer{};
  const ssize_t count = ::read(end, buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  const std::size_t room = most_kept - std::min(most_kept, output.size());
  output.append(buffer.data(), std::min(room, static_cast<std::size_t>(count)));
  return true;
}

}  // namespace

HelperEnd run_helper(const std::vector<std::string>& command, const std::filesystem::path& folder,
                     double limit_s, const std::stop_token& stop) {
  HelperEnd end;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return end;
  const Descriptor reading(ends[0]);
  pid_t child = 0;
  {
    const Descriptor writing(ends[1]);
    child = start_helper(command, folder, writing.get());
  }
  if (child == 0) return end;
  const auto begun = Clock::now();
  int status = 0;
  pid_t ended = 0;
  for (bool open = true; ended == 0 && seconds_since(begun) < limit_s && !stop.stop_requested();) {
    if (open) {
      open = take(reading.get(), end.output);
    } else {
      ::poll(nullptr, 0, look_ms);
    }
    ended = ::waitpid(child, &status, WNOHANG);
    if (ended < 0 && errno == EINTR) ended = 0;
  }
  if (ended == 0) {
    end.kind = HelperEnd::Kind::late;
    ::kill(-child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return end;
  }
  const bool good = ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  end.kind = good ? HelperEnd::Kind::good : HelperEnd::Kind::failed;
  return end;
}

}  // namespace lockstep::train
