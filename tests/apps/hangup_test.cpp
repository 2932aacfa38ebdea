// SIGHUP of a closed terminal: a run stops and saves, a tool ends; under nohup both go on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <apps/results.hpp>
#include <apps/small_run.hpp>
#include <array>
#include <chrono>
#include <filesystem>
#include <thread>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr auto patience = std::chrono::seconds(100);

template <class Condition>
bool comes_true(const Condition& condition) {
  const auto until = std::chrono::steady_clock::now() + patience;
  bool is_true = condition();
  for (; !is_true && std::chrono::steady_clock::now() < until; is_true = condition())
    std::this_thread::sleep_for(milliseconds(10));
  return is_true;
}

[[noreturn]] void become(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  _exit(127);
}

/// How a process ended: 128 + n after signal n; -1 if it had to be killed.
int code_of(pid_t process) {
  int status = 0;
  if (!comes_true([&] { return waitpid(process, &status, WNOHANG) == process; })) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// A tool that prints more than its pipe holds, and gets SIGHUP while the pipe is full.
struct Tool {
  int code = -1;
  bool goes_on = false;  ///< after the signal
  std::size_t bytes = 0;
};

Tool hung_up(const std::vector<std::string>& command) {
  constexpr int room = 4096;
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  EXPECT_EQ(fcntl(ends[1], F_SETPIPE_SZ, room), room);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    become(command);
  }
  close(ends[1]);
  int waiting = 0;
  EXPECT_TRUE(
      comes_true([&] { return ioctl(ends[0], FIONREAD, &waiting) == 0 && waiting == room; }));
  kill(child, SIGHUP);
  std::this_thread::sleep_for(milliseconds(200));
  Tool tool;
  siginfo_t ended{};
  tool.goes_on =
      waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      ended.si_pid == 0;
  std::array<char, room> buffer{};
  for (ssize_t count = 1; count > 0; tool.bytes += static_cast<std::size_t>(count))
    count = read(ends[0], buffer.data(), buffer.size());
  close(ends[0]);
  tool.code = code_of(child);
  return tool;
}

TEST(Hangup, EndsAToolButNotUnderNohup) {
  const std::vector<std::string> tool{built("apps/lockstep"), "deck", "reference"};
  const std::size_t whole = run(tool).output.size();
  const Tool closed = hung_up(tool);
  EXPECT_EQ(closed.code, 128 + SIGHUP);
  EXPECT_LT(closed.bytes, whole);
  auto kept = tool;
  kept.insert(kept.begin(), "nohup");
  const Tool under_nohup = hung_up(kept);
  EXPECT_TRUE(under_nohup.goes_on);
  EXPECT_EQ(under_nohup.code, 0);
  EXPECT_EQ(under_nohup.bytes, whole);
}

/// A run alone on a terminal that is closed after its first line of metrics.
pid_t on_closed_terminal(const std::vector<std::string>& command, const std::string& dir) {
  int screen = -1;
  const pid_t child = forkpty(&screen, nullptr, nullptr, nullptr);
  if (child == 0) become(command);
  const auto drain = [&] {  // reads its output, so that it does not block
    std::array<char, 4096> buffer{};
    pollfd readable{screen, POLLIN, 0};
    while (poll(&readable, 1, 0) > 0 && read(screen, buffer.data(), buffer.size()) > 0) continue;
  };
  std::error_code none;
  EXPECT_TRUE(comes_true([&] {
    drain();
    const auto bytes = fs::file_size(dir + "/metrics.jsonl", none);
    return !none && bytes > 0;
  }));
  close(screen);
  return child;
}

std::vector<std::string> long_run(const std::string& dir) {
  std::vector<std::string> command{built("apps/classify")};
  const auto arguments = small_run(dir, {"--set", "train.epochs=1000000"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

TEST(Hangup, OfARunsTerminalStopsAndSavesIt) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  EXPECT_EQ(code_of(on_closed_terminal(long_run(dir), dir)), 75);
  const auto summary = nlohmann::json::parse(read_file(dir + "/summary.json"));
  EXPECT_EQ(summary.at("stopped_by"), "SIGHUP");
  EXPECT_TRUE(newest_good_checkpoint(dir + "/checkpoints"));
}

TEST(Hangup, OfARunsTerminalIsIgnoredUnderNohup) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  const pid_t run = on_closed_terminal(
      {"sh", "-c", "exec nohup " + quoted(long_run(dir)) + " >/dev/null 2>&1"}, dir);
  const auto rows = fs::file_size(dir + "/metrics.jsonl");
  EXPECT_TRUE(comes_true([&] { return fs::file_size(dir + "/metrics.jsonl") > 2 * rows; }))
      << "it goes on";
  kill(run, SIGTERM);
  EXPECT_EQ(code_of(run), 75);
  EXPECT_EQ(nlohmann::json::parse(read_file(dir + "/summary.json")).at("stopped_by"), "SIGTERM");
}

}  // namespace
}  // namespace lockstep::test
