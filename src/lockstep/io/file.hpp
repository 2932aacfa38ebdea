#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep {

/// A failed call on a file: "cannot write runs/x/a.h5: No space left on device".
class FileError : public Error {
 public:
  FileError(const std::string& what, const std::filesystem::path& path, int error_number);
  /// For an error without a failed call: "cannot read a.h5: it is a pipe, not a file".
  FileError(const std::string& what, const std::filesystem::path& path, const std::string& why);
  /// The system's errno, e.g. ENOSPC; EINVAL without a failed call.
  [[nodiscard]] int error_number() const noexcept { return error_number_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  int error_number_;
};

/// A file's identity, and when its bytes last changed.
struct FileStatus {
  std::uint64_t device = 0, inode = 0;
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;  ///< since 1970
  bool operator==(const FileStatus&) const = default;
};

/// An open file of bytes at 64-bit offsets, closed with its owner. Reads and writes at an offset
/// move no file position, so several threads may use one File. Every failure is a FileError.
class File {
 public:
  /// A path that is not a regular file (a pipe, a device, a folder) is refused without blocking.
  [[nodiscard]] static File open_for_reading(const std::filesystem::path& path);
  /// An existing file.
  [[nodiscard]] static File open_for_writing(const std::filesystem::path& path);
  /// An empty file; truncates an existing one.
  [[nodiscard]] static File create(const std::filesystem::path& path);
  /// An empty file; an error (EEXIST) if the name exists, also as a symbolic link.
  [[nodiscard]] static File create_new(const std::filesystem::path& path);

  File() = default;  ///< no file
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  /// Reads exactly `bytes` bytes. A file that ends earlier is an error.
  void read_at(std::int64_t offset, void* target, std::int64_t bytes) const;
  void write_at(std::int64_t offset, const void* source, std::int64_t bytes) const;
  [[nodiscard]] FileStatus status() const;
  [[nodiscard]] std::int64_t size() const { return status().bytes; }
  /// Truncates or extends (with zeros) to `bytes` bytes.
  void resize(std::int64_t bytes) const;
  /// Returns once everything written is on stable storage.
  void sync() const;
  /// Closes now: network file systems report late write errors only here.
  void close();
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// The descriptor, for calls that this class lacks; closed with this object.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  File(int descriptor, std::filesystem::path path)
      : descriptor_(descriptor), path_(std::move(path)) {}
  int descriptor_ = -1;
  std::filesystem::path path_;
};

/// Writes all bytes of `from` to the beginning of `to`. Throws as read_at and write_at do.
void copy_bytes(const File& from, const File& to);

}  // namespace lockstep
