#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include <lockstep/io/file.hpp>

namespace lockstep {

/// A file of samples, open for reading, that nobody should write to meanwhile. A file put in its
/// place under the same name does no harm: the old one stays open.
class DataFile {
 public:
  /// `remedy` ends the messages: "Point data.path at an HDF5 file." Throws InputError if the file
  /// is missing, no regular file, or cannot be opened.
  DataFile(const std::filesystem::path& path, const std::string& remedy);

  [[nodiscard]] const File& file() const noexcept { return file_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  /// Throws InputError if it was written to since it was opened.
  void expect_unchanged() const;

 private:
  File file_;
  std::int64_t bytes_, modified_ns_;
};

}  // namespace lockstep
