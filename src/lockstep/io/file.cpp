#include <lockstep/io/file.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

// Linux moves at most 2^31 - 4096 bytes a call; stay well below.
constexpr std::int64_t longest_transfer = std::int64_t{1} << 30;

std::string why(int error_number) {
  std::string text = std::generic_category().message(error_number);
  if (error_number == EMFILE) {
    text +=
        ", the limit of a process (ulimit -n) is reached: raise it, or use fewer files at a time";
  }
  if (error_number == ENOSPC || error_number == EDQUOT)
    text += ": free space there, or use another file system";
  return text;
}

int open_or_throw(const char* what, const std::filesystem::path& path, int flags) {
  int descriptor;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) throw FileError(what, path, errno);
  return descriptor;
}

}  // namespace

FileError::FileError(const std::string& what, const std::filesystem::path& path, int error_number)
    : Error("cannot " + what + " " + path.string() + ": " + why(error_number)),
      path_(path),
      error_number_(error_number) {}

FileError::FileError(const std::string& what, const std::filesystem::path& path,
                     const std::string& why)
    : Error("cannot " + what + " " + path.string() + ": " + why),
      path_(path),
      error_number_(EINVAL) {}

File File::open_for_reading(const std::filesystem::path& path) {
  // Without O_NONBLOCK opening a pipe would block; it does not affect a regular file.
  File file(open_or_throw("open", path, O_RDONLY | O_NONBLOCK | O_NOCTTY), path);
  struct stat info {};
  if (::fstat(file.descriptor_, &info) != 0) throw FileError("examine", path, errno);
  if (S_ISDIR(info.st_mode)) throw FileError("read", path, EISDIR);
  if (!S_ISREG(info.st_mode)) {
    throw FileError(
        "read", path,
        S_ISFIFO(info.st_mode) ? "it is a pipe, not a file" : "it is a device, not a file");
  }
  return file;
}

File File::open_for_writing(const std::filesystem::path& path) {
  return {open_or_throw("open", path, O_WRONLY), path};
}

File File::create(const std::filesystem::path& path) {
  return {open_or_throw("create", path, O_RDWR | O_CREAT | O_TRUNC), path};
}

File File::create_new(const std::filesystem::path& path) {
  return {open_or_throw("create", path, O_RDWR | O_CREAT | O_EXCL), path};
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::read_at(std::int64_t offset, void* target, std::int64_t bytes) const {
  auto* to = static_cast<std::byte*>(target);
  while (bytes > 0) {
    const auto want = static_cast<std::size_t>(std::min(bytes, longest_transfer));
    const ssize_t got = ::pread(descriptor_, to, want, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileError("read", path_, errno);
    if (got == 0) {
      throw Error("cannot read " + path_.string() + ": it ends at byte " + std::to_string(offset) +
                  ", " + std::to_string(bytes) + " bytes too early");
    }
    to += got;
    offset += got;
    bytes -= got;
  }
}

void File::write_at(std::int64_t offset, const void* source, std::int64_t bytes) const {
  const auto* from = static_cast<const std::byte*>(source);
  while (bytes > 0) {
    const auto want = static_cast<std::size_t>(std::min(bytes, longest_transfer));
    const ssize_t put = ::pwrite(descriptor_, from, want, offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw FileError("write", path_, put < 0 ? errno : EIO);
    from += put;
    offset += put;
    bytes -= put;
  }
}

FileStatus File::status() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) throw FileError("examine", path_, errno);
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .bytes = info.st_size,
          .modified_ns = info.st_mtim.tv_sec * std::int64_t{1'000'000'000} + info.st_mtim.tv_nsec};
}

void File::resize(std::int64_t bytes) const {
  if (::ftruncate(descriptor_, bytes) != 0) throw FileError("resize", path_, errno);
}

void File::sync() const {
  if (::fsync(descriptor_) != 0) throw FileError("write", path_, errno);
}

void File::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  // After EINTR Linux has released the descriptor anyway.
  if (descriptor >= 0 && ::close(descriptor) != 0 && errno != EINTR)
    throw FileError("write", path_, errno);
}

void copy_bytes(const File& from, const File& to) {
  constexpr std::int64_t at_a_time = std::int64_t{1} << 20;
  std::vector<std::byte> buffer(static_cast<std::size_t>(at_a_time));
  const std::int64_t size = from.size();
  for (std::int64_t done = 0; done < size; done += at_a_time) {
    const std::int64_t bytes = std::min(at_a_time, size - done);
    from.read_at(done, buffer.data(), bytes);
    to.write_at(done, buffer.data(), bytes);
  }
}

}  // namespace lockstep
