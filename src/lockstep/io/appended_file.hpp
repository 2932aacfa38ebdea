#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <lockstep/io/file.hpp>

namespace lockstep {

/// A file that grows by whole records. Records that cannot be written, for example to a full disk,
/// wait in memory. A later write begins behind the last whole record, so that a part of one that
/// reached the disk is replaced.
class AppendedFile {
 public:
  AppendedFile() = default;
  /// Appends behind the first `end` bytes of an open file.
  AppendedFile(File file, std::int64_t end) : file_(std::move(file)), end_(end) {}

  /// A record for the next flush().
  void add(std::string_view record) { unwritten_ += record; }
  /// Writes waiting text. Throws FileError, and keeps it.
  void flush();
  [[nodiscard]] std::size_t unwritten() const noexcept { return unwritten_.size(); }
  /// Drops waiting text.
  void drop() noexcept { unwritten_.clear(); }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }

 private:
  File file_;
  std::int64_t end_ = 0;  ///< of whole records in the file
  std::string unwritten_;
};

}  // namespace lockstep
