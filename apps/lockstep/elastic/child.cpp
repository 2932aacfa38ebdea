#include "child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <thread>

#include <lockstep/base/error.hpp>
#include <lockstep/base/helper_program.hpp>
#include <lockstep/base/process_state.hpp>

namespace lockstep::elastic {
namespace {

constexpr std::size_t longest_line = 8192;
constexpr auto death_takes = std::chrono::milliseconds(10);
// A process that waits for a disk or a network file system dies only when that answers.
constexpr double longest_death_s = 10;

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
      throw Error(std::string("cannot create a pipe: ") + std::strerror(errno));
  }
};

/// Processes by parent, dead ones too.
std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  for_each_process([&](int pid) { children.insert({parent_of(pid), pid}); });
  return children;
}

bool is_alive(pid_t pid) {
  const ProcessState state = process_state(pid);
  return state != ProcessState::died && state != ProcessState::gone;
}

/// Children of this process that it has not started: a descendant's, after that has ended. Helper
/// programs that run beside the command are somebody else's.
std::vector<pid_t> orphans(const std::multimap<pid_t, pid_t>& children, pid_t command) {
  std::vector<pid_t> found;
  const auto [first, last] = children.equal_range(getpid());
  for (auto child = first; child != last; ++child) {
    if (child->second != command && !is_helper_program(child->second))
      found.push_back(child->second);
  }
  return found;
}

/// All living descendants of the command, with itself unless its end was seen.
std::vector<pid_t> descendants(pid_t command, bool ended) {
  const auto children = children_by_parent();
  std::vector<pid_t> found, open = orphans(children, command);
  if (!ended) open.push_back(command);
  while (!open.empty()) {
    const pid_t process = open.back();
    open.pop_back();
    if (is_alive(process)) found.push_back(process);
    const auto [first, last] = children.equal_range(process);
    for (auto child = first; child != last; ++child) open.push_back(child->second);
  }
  return found;
}

/// Orphans become this process's children, so it has to wait for them.
void bury_orphans(pid_t command) {
  for (const pid_t orphan : orphans(children_by_parent(), command)) {
    if (!is_alive(orphan)) waitpid(orphan, nullptr, WNOHANG);
  }
}

void write_all(int stream, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(stream, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody reads: the training goes on
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const Environment& environment,
             Listener listener, Output output)
    : listener_(std::move(listener)), output_(output) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const Pipe out, err;
  // mpiexec ends its ranks when nobody reads its output. If this process dies, the command's ranks
  // save; the command holds the reading ends itself and has room for their last words.
  constexpr int room = 1 << 20U;
  for (const Pipe* pipe : {&out, &err}) fcntl(pipe->ends[1], F_SETPIPE_SZ, room);
  ends_ = {out.ends[0], err.ends[0]};
  pid_ = start_program(
      command,
      {.environment = environment, .output = out.ends[1], .errors = err.ends[1], .kept = ends_});
  const int error = errno;
  for (const Pipe* pipe : {&out, &err}) close(pipe->ends[1]);
  if (pid_ < 0) throw Error(std::string("cannot start a process: ") + std::strerror(error));
}

Child::~Child() {
  kill_all();
  for (const int end : ends_) {
    if (end >= 0) close(end);
  }
}

void Child::pass_on(std::size_t stream, std::string_view text) {
  if (output_ == Output::passed_on) write_all(stream == 0 ? STDOUT_FILENO : STDERR_FILENO, text);
  std::string& line = lines_[stream];
  for (const char c : text) {
    if (c == '\n') {
      listener_(line);
      line.clear();
    } else if (line.size() < longest_line) {
      line += c;
    }
  }
}

void Child::relay(Seconds most) {
  std::array<pollfd, 2> streams{{{ends_[0], POLLIN, 0}, {ends_[1], POLLIN, 0}}};
  const auto limit = static_cast<int>(std::max(0.0, most.count()) * 1e3);
  if (poll(streams.data(), streams.size(), limit) <= 0) return;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i].revents == 0) continue;
    std::array<char, 65536> buffer{};
    const ssize_t count = read(ends_[i], buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) {
      pass_on(i, {buffer.data(), static_cast<std::size_t>(count)});
    } else {
      close(std::exchange(ends_[i], -1));  // poll() ignores it from now on
    }
  }
}

/// Reads its last output. A descendant may still hold the other end and go on writing.
void Child::drain() {
  const auto start = Clock::now();
  for (;;) {
    std::array<pollfd, 2> streams{{{ends_[0], POLLIN, 0}, {ends_[1], POLLIN, 0}}};
    if (poll(streams.data(), streams.size(), 0) <= 0 || seconds_since(start) > 1) return;
    relay(Seconds(0));
  }
}

bool Child::wait(Seconds most) {
  const auto start = Clock::now();
  // Short, because poll() does not report the end of a child.
  constexpr Seconds at_a_time{0.02};
  do {
    relay(std::min(at_a_time, most));
    int status = 0;
    if (!ended_ && waitpid(pid_, &status, WNOHANG) == pid_) {
      ended_ = true;
      code_ = exit_code_of(status);
      drain();
    }
  } while (!ended_ && seconds_since(start) < most.count());
  return ended_;
}

void Child::signal(int number) const noexcept {
  if (!ended_) kill(pid_, number);
}

int Child::kill_all() {
  const auto start = Clock::now();
  std::set<pid_t> killed;
  for (;;) {
    const auto left = descendants(pid_, ended_);
    for (const pid_t pid : left) {
      kill(pid, SIGKILL);
      if (pid != pid_) killed.insert(pid);
    }
    int status = 0;
    if (!ended_ && waitpid(pid_, &status, WNOHANG) == pid_) {
      ended_ = true;
      code_ = exit_code_of(status);
    }
    if (ended_) bury_orphans(pid_);
    const bool stuck = seconds_since(start) > longest_death_s;
    if ((ended_ && left.empty()) || stuck) return static_cast<int>(killed.size());
    std::this_thread::sleep_for(death_takes);
  }
}

std::vector<pid_t> parents_of_living(const std::vector<pid_t>& processes) {
  const auto children = children_by_parent();
  std::vector<pid_t> parents;
  std::ranges::copy_if(processes, std::back_inserter(parents), [&](pid_t process) {
    const auto [first, last] = children.equal_range(process);
    return std::any_of(first, last, [](const auto& one) { return is_alive(one.second); });
  });
  return parents;
}

}  // namespace lockstep::elastic
