#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

/// One owner per folder: a file `run.lock` in it names host, job and process of the owner.
///
/// Uses no lock of the system, which network file systems may lack or grant twice. The file is
/// written under a unique name and gets its final name by link(2), which succeeds for only one
/// process. The right to follow a dead owner is a link too.
///
/// An owner on this machine is dead when its process is. One elsewhere sends heartbeats
/// (`refresh`), and is dead after `dead_after` without one, by the file system's clock; or, under
/// Slurm, when its job has been started again since.
///   FolderLock lock(folder);  // throws InputError that names the owner
///   while (...) lock.refresh();  // each `heartbeat`, from any thread
class FolderLock {
 public:
  static constexpr const char* file_name = "run.lock";
  static constexpr std::chrono::seconds heartbeat{20};
  static constexpr std::chrono::seconds dead_after{300};

  /// The kind of a folder, and the option that names one: for messages.
  struct Kind {
    const char* name = "run";
    const char* option = "--set 'run.dir=\"...\"'";
  };

  /// Locks the folder, which is made if necessary. Throws InputError if it has a living owner,
  /// FileError if nothing can be written.
  explicit FolderLock(const std::filesystem::path& folder) : FolderLock(folder, Kind()) {}
  FolderLock(const std::filesystem::path& folder, Kind kind);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock() { release(); }

  /// The living owner of a folder in words, "process 17 on node3 (...)"; nothing if it has none.
  /// Writes nothing: heartbeats are compared with this machine's clock.
  [[nodiscard]] static std::optional<std::string> owner_of(const std::filesystem::path& folder);

  /// A heartbeat. Does nothing if the lock is no longer this one's.
  void refresh() const noexcept;
  /// False once the folder was removed, moved or given to another owner. Thread-safe.
  [[nodiscard]] bool is_held() const noexcept;
  /// is_held(), as a function that may outlive this.
  [[nodiscard]] std::function<bool()> question() const;
  /// To be called after the owner has renamed the folder.
  void folder_moved(const std::filesystem::path& to) { file_ = to / file_name; }
  /// Releases the folder, if it is still this one's.
  void release() noexcept;

 private:
  std::filesystem::path file_;
  std::uint64_t device_ = 0, inode_ = 0;  ///< inode of the file; 0: none is held
};

}  // namespace lockstep
