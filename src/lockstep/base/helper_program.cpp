#include <lockstep/base/helper_program.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <set>

#include <lockstep/base/start_program.hpp>

namespace lockstep {
namespace {

constexpr int code_without_program = 127;
constexpr Seconds at_a_time{0.02};  // the end of a child is no event of poll()

/// The helper programs of this process that have not been waited for. Not locked while one is being
/// started: that may take for ever, where its file system does not answer.
class HelperPrograms {
 public:
  static HelperPrograms& instance() {
    static HelperPrograms all;
    return all;
  }

  template <class Start>
  int start(const Start& start) {
    const Starting starting(*this);
    const int pid = start();
    const std::lock_guard lock(mutex_);
    if (pid > 0) pids_.insert(pid);
    return pid;
  }
  void waited_for(int pid) {
    const std::lock_guard lock(mutex_);
    pids_.erase(pid);
  }
  bool may_have(int pid) {
    constexpr Seconds patience{1};
    std::unique_lock lock(mutex_);
    const auto is_known = [&] { return starting_ == 0 || pids_.contains(pid); };
    return !started_.wait_for(lock, patience, is_known) || pids_.contains(pid);
  }

 private:
  class Starting {
   public:
    explicit Starting(HelperPrograms& all) : all_(all) { count(1); }
    ~Starting() {
      count(-1);
      all_.started_.notify_all();
    }
    Starting(const Starting&) = delete;
    Starting& operator=(const Starting&) = delete;

   private:
    void count(int more) {
      const std::lock_guard lock(all_.mutex_);
      all_.starting_ += more;
    }

    HelperPrograms& all_;
  };

  std::mutex mutex_;
  std::condition_variable started_;
  std::set<int> pids_;
  int starting_ = 0;
};

}  // namespace

bool is_helper_program(int pid) { return HelperPrograms::instance().may_have(pid); }

int exit_code_of(int status) noexcept {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

HelperProgram::HelperProgram(const std::vector<std::string>& command,
                             const HelperOptions& options) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) == 0) {
    reading_ = Descriptor(ends[0]);
    const Descriptor writing(ends[1]);
    pid_ = HelperPrograms::instance().start([&] {
      return start_program(command, {.folder = options.folder,
                                     .output = writing.get(),
                                     .errors = options.with_errors ? writing.get() : -1});
    });
  }
  if (pid_ > 0) return;
  ended_ = true;
  code_ = code_without_program;
}

HelperProgram::~HelperProgram() {
  if (ended_) return;
  if (::waitpid(pid_, nullptr, WNOHANG) == 0) {  // else others have seen its end
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  HelperPrograms::instance().waited_for(pid_);
}

void HelperProgram::read_some(Seconds most) {
  constexpr std::size_t most_kept = 4 << 20U;
  std::array<char, 4096> buffer{};
  pollfd readable{reading_.get(), POLLIN, 0};  // poll() passes over -1
  if (::poll(&readable, 1, static_cast<int>(most.count() * 1e3)) <= 0) return;
  const ssize_t count = ::read(reading_.get(), buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) {
    reading_ = {};
    return;
  }
  output_.append(buffer.data(), static_cast<std::size_t>(count));
  if (output_.size() > most_kept) output_.erase(0, most_kept / 2);
}

bool HelperProgram::wait(Seconds most) {
  const auto begun = Clock::now();
  while (!ended_) {
    const Seconds left(most.count() - seconds_since(begun));
    read_some(std::clamp(left, Seconds(0), at_a_time));
    int status = 0;
    const pid_t found = ::waitpid(pid_, &status, WNOHANG);
    if (found != 0 && !(found < 0 && errno == EINTR)) {
      ended_ = true;
      HelperPrograms::instance().waited_for(pid_);
      if (found == pid_) code_ = exit_code_of(status);
      // Its last output. Somebody it started may still have the other end.
      const auto end = Clock::now();
      std::size_t before = 0;
      do {
        before = output_.size();
        read_some(Seconds(0));
      } while (output_.size() != before && seconds_since(end) < 1);
    }
    if (left <= Seconds(0)) break;
  }
  return ended_;
}

HelperEnd run_helper(const std::vector<std::string>& command, double limit_s,
                     const HelperOptions& options, const std::stop_token& stop) {
  HelperProgram program(command, options);
  const auto begun = Clock::now();
  HelperEnd end{.kind = HelperEnd::Kind::late, .output = {}};
  for (double left_s = limit_s; left_s > 0 && !stop.stop_requested();
       left_s = limit_s - seconds_since(begun)) {
    if (!program.wait(std::min(Seconds(left_s), at_a_time))) continue;
    end.kind = program.code() == 0                      ? HelperEnd::Kind::good
               : program.code() == code_without_program ? HelperEnd::Kind::not_started
                                                        : HelperEnd::Kind::failed;
    break;
  }
  end.output = program.output();
  return end;
}

}  // namespace lockstep
