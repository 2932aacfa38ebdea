#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace lockstep {

/// One owner a folder: a file `run.lock` in it that names host, job and process of who works there.
///
/// Takes no lock of the system, which network file systems may lack or grant twice: the file is
/// written under a name of its own and gets its name by link(2), which one of several wins. So does
/// who takes over from a dead owner: the right to follow a certain owner is a link too.
///
/// An owner on this machine is dead when its process is. One elsewhere shows signs of life
/// (`refresh`), and is dead after `dead_after` without one, by the file system's clock; or, under
/// Slurm, when its job has been started again since.
///   FolderLock lock(folder);  // throws InputError that names the owner
///   while (...) lock.refresh();  // each `heartbeat`, from any thread
class FolderLock {
 public:
  static constexpr const char* file_name = "run.lock";
  static constexpr std::chrono::seconds heartbeat{20};
  static constexpr std::chrono::seconds dead_after{300};

  /// Takes the folder, which is made if need be. Throws InputError if it has a living owner,
  /// FileError where nothing can be written.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock() { release(); }

  /// A sign of life. Does nothing if the lock is no longer this one's.
  void refresh() const noexcept;
  /// False once the folder was removed, moved or given to somebody else. Thread-safe.
  [[nodiscard]] bool is_held() const noexcept;
  /// is_held(), for who may outlive this.
  [[nodiscard]] std::function<bool()> question() const;
  /// The owner has renamed the folder.
  void folder_moved(const std::filesystem::path& to) { file_ = to / file_name; }
  /// Gives the folder back, if it is still this one's.
  void release() noexcept;

 private:
  std::filesystem::path file_;
  std::uint64_t device_ = 0, inode_ = 0;  ///< of the file; 0: none is held
};

}  // namespace lockstep
