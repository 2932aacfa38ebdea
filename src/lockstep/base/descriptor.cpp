#include <lockstep/base/descriptor.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace lockstep {

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

int allocate_file(const Descriptor& file, std::int64_t begin, std::int64_t bytes) {
  constexpr std::int64_t piece = std::int64_t{1} << 20U;  // a fraction of a millisecond in /dev/shm
  for (const std::int64_t end = begin + bytes; begin < end; begin += piece) {
    int error = EINTR;
    while (error == EINTR) error = posix_fallocate(file.get(), begin, std::min(piece, end - begin));
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace lockstep
