#include <lockstep/io/folder.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include <lockstep/io/file.hpp>

namespace lockstep {
namespace fs = std::filesystem;

std::int64_t available_bytes(const fs::path& folder) {
  std::error_code ignored;
  fs::path there = fs::absolute(folder);
  while (!fs::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
  struct statvfs info {};
  if (::statvfs(there.c_str(), &info) != 0) throw FileError("examine", there, errno);
  return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

std::string why_not_writable(const fs::path& folder) {
  const fs::path probe = folder / fmt::format(".lockstep-write-test-{}", ::getpid());
  try {
    make_folder(folder);
    File file = File::create(probe);
    ::unlink(probe.c_str());
    file.write_at(0, "x", 1);
    file.close();
    return {};
  } catch (const FileError& e) {
    return fmt::format("folder {} cannot be written: {}", folder.string(),
                       std::generic_category().message(e.error_number()));
  }
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw FileError("create folder", folder, error.value());
}

void expect_working_directory() {
  std::error_code error;
  static_cast<void>(fs::current_path(error));
  if (!error) return;
  throw InputError(
      fmt::format("the working directory of this program can no longer be used: {}. Start it again "
                  "in a folder that exists.",
                  error.message()));
}

void sync_folder(const fs::path& folder) {
  const fs::path name = folder.empty() ? fs::path(".") : folder;
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw FileError("open folder", name, errno);
  const int status = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  // EINVAL: the file system does not support it, and keeps names in order by itself.
  if (status != 0 && error != EINVAL) throw FileError("write folder", name, error);
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace lockstep
