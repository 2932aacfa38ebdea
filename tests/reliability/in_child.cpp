#include "in_child.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <new>

#include <lockstep/base/error.hpp>

namespace lockstep::reliability {
namespace {

constexpr rlim_t room_bytes = rlim_t{1} << 30U;
constexpr unsigned limit_s = 20;
constexpr char is_error = 'E', is_return = 'R', is_other = 'O';

void limit_memory() {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t bytes = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + room_bytes;
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_AS, &limit);
}

std::string report_of(const std::function<void()>& body) {
  try {
    body();
    return {is_return};
  } catch (const Error& error) {
    return is_error + std::string(error.what());
  } catch (const std::bad_alloc&) {
    return is_other + std::string("more memory was asked for than there is");
  } catch (const std::exception& error) {
    return is_other + std::string("another exception: ") + error.what();
  }
}

}  // namespace

ChildEnd in_child(const std::function<void()>& body) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw Error("no pipe");
  const pid_t child = ::fork();
  if (child < 0) throw Error("no process");
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    limit_memory();
    ::alarm(limit_s);
    const std::string report = report_of(body).substr(0, 4000);
    static_cast<void>(!::write(ends[1], report.data(), report.size()));
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string report;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    report.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return {false, signal == SIGALRM ? "it hung" : std::string("it crashed: ") + strsignal(signal)};
  }
  if (report.empty()) return {false, "it left without a word"};
  return {report.front() != is_other, report.substr(1)};
}

}  // namespace lockstep::reliability
