#pragma once
// The folder of a sweep: sweep.json has its identity and progress, trial-0003/ is a trial's
// run folder, records/trial-0003/ holds record.json and output.txt of that trial.
#include <filesystem>
#include <optional>

#include <lockstep/io/folder_lock.hpp>

#include "trial.hpp"

namespace lockstep::sweep {

/// As a lock's messages name it.
inline constexpr FolderLock::Kind folder_kind{.name = "sweep", .option = "--output"};

/// One sweep at a time has the folder, and one process a trial: tasks of an array job share it.
class Folder {
 public:
  /// Makes the folder, or continues the sweep in it. `identity`: deck, grid, metric and halving.
  /// Throws InputError: it holds another sweep or something else, or another process uses it;
  /// FileError.
  Folder(const std::filesystem::path& path, const Json& identity, bool of_one_trial);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path run_folder(const Trial& trial) const {
    return path_ / trial.name();
  }
  [[nodiscard]] std::filesystem::path records(const Trial& trial) const {
    return path_ / "records" / trial.name();
  }
  /// Fills in the record of a trial.
  void read(Trial& trial) const;
  /// These appear whole or not at all. Throw FileError.
  void write(const Trial& trial) const;
  void write_sweep(const Json& results) const;

  /// Each FolderLock::heartbeat or more often.
  void show_life() const noexcept {
    if (lock_) lock_->refresh();
  }

 private:
  std::filesystem::path path_;
  Json identity_;
  std::optional<FolderLock> lock_;
};

/// The first difference of `now` from `before`: "another grid"; empty: none.
[[nodiscard]] std::string difference(const Json& before, const Json& now);

/// Ends processes of these trials that a killed sweep left: first asks them to save. Throws
/// InputError if it does not die.
void end_leftovers(const std::vector<std::filesystem::path>& records);

}  // namespace lockstep::sweep
