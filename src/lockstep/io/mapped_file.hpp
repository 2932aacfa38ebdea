#pragma once
#include <cstddef>
#include <filesystem>
#include <span>

namespace lockstep {

/// A regular file's bytes as memory, read-only, for as long as this object lives: read from disk as
/// they are looked at, and shared by all processes that map the file. Whoever cuts the file short
/// meanwhile ends the processes that look behind its end (SIGBUS).
class MappedFile {
 public:
  /// Throws FileError as File::open_for_reading.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace lockstep
