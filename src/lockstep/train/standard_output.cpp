#include <lockstep/train/standard_output.hpp>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include <lockstep/base/error.hpp>

namespace lockstep::train {

void write_stdout(std::string_view text) {
  bool good = std::fflush(stdout) == 0;  // what a task of one's own has printed comes before it
  while (good && !text.empty()) {
    const ssize_t put = ::write(STDOUT_FILENO, text.data(), text.size());
    if (put >= 0) {
      text.remove_prefix(static_cast<std::size_t>(put));
    } else if (errno == EAGAIN) {  // somebody else has made our terminal non-blocking
      pollfd writable{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else {
      good = errno == EINTR;
    }
  }
  if (!good) {
    throw Error("standard output cannot be written: " + std::generic_category().message(errno));
  }
}

void keep_closed_streams_closed() {
  int descriptor = 0;
  // Each takes the lowest free number; what is open for reading only takes no output.
  do {
    descriptor = ::open("/dev/null", O_RDONLY);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) ::close(descriptor);
}

}  // namespace lockstep::train
