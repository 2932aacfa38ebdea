#pragma once
#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>

#include <lockstep/io/file.hpp>

namespace lockstep {

class OpenFiles;

/// A file of samples that OpenFiles opens whenever it is read. It stays where it is.
class KnownFile {
 public:
  /// Opens it. Throws FileError.
  explicit KnownFile(std::filesystem::path path);
  ~KnownFile();
  KnownFile(const KnownFile&) = delete;
  KnownFile& operator=(const KnownFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// As it was when it was opened first.
  [[nodiscard]] const FileStatus& status() const noexcept { return status_; }

 private:
  friend class OpenFiles;
  std::filesystem::path path_;
  FileStatus status_;
  std::shared_ptr<const File> file_;       // nothing while it is not open
  std::list<KnownFile*>::iterator place_;  // in one of OpenFiles' lists
};

/// Which files of samples this process has open: those that were read last, at most a quarter of
/// what `ulimit -n` allows, so that a data set may have thousands of files. Thread-safe.
class OpenFiles {
 public:
  [[nodiscard]] static OpenFiles& instance();

  /// The open file, which stays open as long as the result is kept. Opens it if need be, which
  /// allocates; throws FileError if that fails, or InputError if another file, or one that was
  /// written to, has its name by now.
  [[nodiscard]] std::shared_ptr<const File> use(KnownFile& known);

 private:
  friend class KnownFile;
  void add(KnownFile& known);
  void remove(KnownFile& known) noexcept;
  [[nodiscard]] std::shared_ptr<const File> open(const std::filesystem::path& path);
  void keep(KnownFile& known, std::shared_ptr<const File> file);
  [[nodiscard]] bool close_oldest();

  std::mutex mutex_;
  std::list<KnownFile*> open_, closed_;  // the last one used first
};

}  // namespace lockstep
