#pragma once
#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>

#include <lockstep/io/file.hpp>

namespace lockstep {

class OpenFiles;

/// A file of samples that OpenFiles opens for each read if necessary. Its address must not change.
class KnownFile {
 public:
  /// Opens it. Throws FileError.
  explicit KnownFile(std::filesystem::path path);
  ~KnownFile();
  KnownFile(const KnownFile&) = delete;
  KnownFile& operator=(const KnownFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Its status when it was first opened.
  [[nodiscard]] const FileStatus& status() const noexcept { return status_; }

 private:
  friend class OpenFiles;
  std::filesystem::path path_;
  FileStatus status_;
  std::shared_ptr<const File> file_;       // nothing while it is closed
  std::list<KnownFile*>::iterator place_;  // position in one of OpenFiles' lists
};

/// The files of samples that this process has open: those read last, at most a quarter of the
/// `ulimit -n`. So a data set may have thousands of files. Thread-safe.
class OpenFiles {
 public:
  [[nodiscard]] static OpenFiles& instance();

  /// The open file, which stays open as long as the result exists. Opens it if necessary, which
  /// allocates. Throws FileError if that fails, or InputError if the name now belongs to another
  /// file or the file was written to.
  [[nodiscard]] std::shared_ptr<const File> use(KnownFile& known);

 private:
  friend class KnownFile;
  void add(KnownFile& known);
  void remove(KnownFile& known) noexcept;
  [[nodiscard]] std::shared_ptr<const File> open(const std::filesystem::path& path);
  void keep(KnownFile& known, std::shared_ptr<const File> file);
  [[nodiscard]] bool close_oldest();

  std::mutex mutex_;
  std::list<KnownFile*> open_, closed_;  // least recently used first
};

}  // namespace lockstep
