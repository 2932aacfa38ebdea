#include <lockstep/base/start_program.hpp>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string_view>

namespace lockstep {
namespace {

/// execvpe's arguments, valid while `lines` live.
std::vector<char*> pointers_to(std::vector<std::string>& lines) {
  std::vector<char*> pointers;
  for (std::string& line : lines) pointers.push_back(line.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_with(const Environment& more) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : more) {
    lines.push_back(name + "=");
    lines.back() += value;
  }
  const auto is_replaced = [&](std::string_view line) {
    return std::ranges::any_of(more,
                               [&](const auto& one) { return line.starts_with(one.first + "="); });
  };
  for (char** line = environ; *line; ++line) {
    if (!is_replaced(*line)) lines.emplace_back(*line);
  }
  return lines;
}

/// No handler of this process may run in the new one. Ignored signals stay ignored (SIGHUP under
/// nohup), except those that end programs.
void reset_signals() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0) continue;
    const bool ends_programs = number == SIGINT || number == SIGTERM || number == SIGUSR1 ||
                               number == SIGPIPE || number == SIGXFSZ;
    if (action.sa_handler != SIG_IGN || ends_programs) std::signal(number, SIG_DFL);
  }
}

/// Runs in the new process, which shares this one's memory until it executes the program, so it
/// must not change memory.
[[noreturn]] void become(char* const* words, char* const* environment, const char* folder,
                         const ProgramStart& start, const sigset_t& mask) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(start.output < 0 ? nothing : start.output, STDOUT_FILENO);
  dup2(start.errors < 0 ? nothing : start.errors, STDERR_FILENO);
  if (nothing > STDERR_FILENO) close(nothing);
  for (const int descriptor : start.kept) fcntl(descriptor, F_SETFD, 0);
  reset_signals();
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  if (*folder == '\0' || chdir(folder) == 0) execvpe(words[0], words, environment);
  _exit(127);
}

}  // namespace

int start_program(const std::vector<std::string>& command, const ProgramStart& start) {
  auto words = command, lines = environment_with(start.environment);
  const auto arguments = pointers_to(words), environment = pointers_to(lines);
  sigset_t all, mask;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &mask);
  const int pid = vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork): see become()
  if (pid == 0) become(arguments.data(), environment.data(), start.folder.c_str(), start, mask);
  // Repeated here: ThreadSanitizer turns vfork() into fork(), and the new process may not have done
  // it yet.
  if (pid > 0) setpgid(pid, pid);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  return pid;
}

}  // namespace lockstep
