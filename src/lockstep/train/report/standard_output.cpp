#include <lockstep/train/report/standard_output.hpp>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <string>
#include <system_error>

#include <lockstep/base/error.hpp>

namespace lockstep::train {

namespace {

[[noreturn]] void cannot_be_written(const std::string& why) {
  throw Error("standard output cannot be written: " + why);
}

/// Waits until a write of PIPE_BUF bytes would not block: a pipe has room for all of them, or is
/// not ready.
bool becomes_writable(int patience_ms) {
  pollfd writable{STDOUT_FILENO, POLLOUT, 0};
  int ready;
  do {
    ready = ::poll(&writable, 1, patience_ms);
  } while (ready < 0 && errno == EINTR);
  return ready != 0;  // write() will report the error
}

void write_all(std::string_view text, int patience_ms) {
  bool good = std::fflush(stdout) == 0;  // output of a user's task comes before it
  while (good && !text.empty()) {
    if (patience_ms >= 0 && !becomes_writable(patience_ms))
      cannot_be_written("it accepts nothing (a full pipe or a stopped terminal)");
    const std::size_t most = patience_ms >= 0 ? PIPE_BUF : text.size();
    const ssize_t put = ::write(STDOUT_FILENO, text.data(), std::min(most, text.size()));
    if (put >= 0) {
      text.remove_prefix(static_cast<std::size_t>(put));
    } else if (errno == EAGAIN) {  // another process has made this terminal non-blocking
      static_cast<void>(becomes_writable(patience_ms));
    } else {
      good = errno == EINTR;
    }
  }
  if (!good) cannot_be_written(std::generic_category().message(errno));
}

}  // namespace

void write_stdout(std::string_view text) { write_all(text, -1); }

void write_stdout(std::string_view text, std::chrono::milliseconds patience) {
  write_all(text, static_cast<int>(patience.count()));
}

void keep_closed_streams_closed() {
  int descriptor = 0;
  // Each takes the lowest free number. They are opened for reading only, so they accept no output.
  do {
    descriptor = ::open("/dev/null", O_RDONLY);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) ::close(descriptor);
}

}  // namespace lockstep::train
