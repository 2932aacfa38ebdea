#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <lockstep/data/files/open_files.hpp>

namespace lockstep {

/// A file of samples that must not be written to while it is read. It need not stay open: of
/// thousands only those read last are (OpenFiles). A file put in its place under the same name does
/// no harm while this one is open; reopening then is an error.
class DataFile {
 public:
  /// `remedy` ends the messages: "Point data.path at an HDF5 file." Throws InputError if the file
  /// is missing, is not a regular file, or cannot be opened.
  DataFile(const std::filesystem::path& path, const std::string& remedy);

  /// Opens the file for reading, for the lifetime of the result. Throws InputError if it has to be
  /// reopened and cannot be, or is another file.
  [[nodiscard]] std::shared_ptr<const File> open() const;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return known_->path(); }
  [[nodiscard]] std::int64_t bytes() const noexcept { return known_->status().bytes; }
  /// Throws InputError if it was written to since it was first opened.
  void expect_unchanged() const;

 private:
  std::unique_ptr<KnownFile> known_;
};

}  // namespace lockstep
