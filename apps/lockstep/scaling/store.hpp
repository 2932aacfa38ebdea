#pragma once
// The folder of a study: study.json says what it is of, points/NAME.json holds a finished point.
#include <filesystem>
#include <optional>
#include <string>

#include <lockstep/io/folder_lock.hpp>

#include "identity.hpp"
#include "json.hpp"

namespace lockstep::scaling {

/// What two studies write at the same time would be neither's: one at a time has the folder.
class Store {
 public:
  /// Makes the folder, or goes on with the study in it. Throws InputError: it holds a study that
  /// cannot be compared with this one, something else, or another process is at it; FileError.
  Store(const std::filesystem::path& folder, const Identity& identity);

  /// What is known of a point; nothing if it was not tried.
  [[nodiscard]] std::optional<Json> known(const std::string& name) const;
  /// Appears whole or not at all. Throws FileError.
  void put(const std::string& name, const Json& result) const;

  /// Where a point's run works; what stood there goes.
  [[nodiscard]] std::filesystem::path new_run_folder(const std::string& name) const;
  /// Of a point that is done.
  void remove_run_folder(const std::string& name) const;

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  /// Each FolderLock::heartbeat or more often.
  void show_life() const noexcept { lock_.refresh(); }

 private:
  [[nodiscard]] std::filesystem::path file_of(const std::string& name) const;

  std::filesystem::path folder_;
  FolderLock lock_;
};

/// A JSON file of a study; throws InputError saying what it is not.
[[nodiscard]] Json read_study_file(const std::filesystem::path& file);

}  // namespace lockstep::scaling
