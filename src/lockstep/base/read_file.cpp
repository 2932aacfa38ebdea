#include <lockstep/base/read_file.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>
#include <string_view>
#include <system_error>

#include <lockstep/base/descriptor.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

std::string message_of(int error_number) { return std::generic_category().message(error_number); }

/// The kind of a path that is not a file; "" for a regular file.
std::string_view other_kind(mode_t mode) {
  if (S_ISREG(mode)) return "";

  if (S_ISFIFO(mode)) return "it is a pipe, not a file";
  if (S_ISSOCK(mode)) return "it is a socket, not a file";
  return "it is a device, not a file";
}

}  // namespace

std::string read_file(const std::filesystem::path& file) {
  return read_small_file(file, std::numeric_limits<std::int64_t>::max());
}

std::string read_small_file(const std::filesystem::path& file, std::int64_t most_bytes) {
  const auto refuse = [&](std::string_view why) {
    return InputError(fmt::format("{} cannot be read: {}", file.string(), why));
  };
  // Without O_NONBLOCK a pipe would be waited for; so would some files of /proc and /sys.
  int number = -1;
  do {
    number = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (number < 0 && errno == EINTR);
  const Descriptor opened(number);
  struct stat status {};
  // A socket cannot even be opened.
  if (!opened && errno == ENXIO) throw refuse("it is a socket or a device, not a file");
  if (!opened || ::fstat(number, &status) != 0) throw refuse(message_of(errno));
  if (S_ISDIR(status.st_mode)) throw refuse(message_of(EISDIR));
  if (const auto kind = other_kind(status.st_mode); !kind.empty()) throw refuse(kind);
  std::string bytes;
  std::array<char, 16384> piece;
  while (true) {
    const ssize_t count = ::read(number, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw refuse(message_of(errno));
    if (count == 0) return bytes;
    bytes.append(piece.data(), static_cast<std::size_t>(count));
    if (static_cast<std::int64_t>(bytes.size()) > most_bytes) {
      throw refuse(
          fmt::format("it has more than the {} bytes that such a file may have", most_bytes));
    }
  }
}

std::string read_small_file_or_nothing(const std::filesystem::path& file, std::int64_t most_bytes) {
  try {
    return read_small_file(file, most_bytes);
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace lockstep
