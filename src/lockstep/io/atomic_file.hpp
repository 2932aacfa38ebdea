#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <lockstep/io/file.hpp>

namespace lockstep {

/// What a published file outlasts.
enum class Durability : std::uint8_t {
  crash_of_machine,  ///< it is on stable storage, for which a busy disk may take seconds
  end_of_process,    ///< for what is written anew every second; after a crash it may be empty
};

/// A file that appears under its name whole, or not at all. It is written under a temporary name in
/// the same folder; publish() puts it on stable storage and renames it over any older file. Until
/// then a failure, or the end of this object, removes the temporary file and leaves the old one.
/// The temporary name is unique: of several writers each publishes its own bytes, and the last
/// one's stay. Only a killed process can leave the temporary file behind (see
/// remove_unfinished_files_on_signals).
class AtomicFile {
 public:
  /// Ends the temporary names: "step-00000938.h5.4711-0.partial", with process and number.
  static constexpr const char* temporary_suffix = ".partial";

  /// Makes the folder if necessary and the empty temporary file. Throws FileError, also if the name
  /// is that of a device, pipe, socket or symbolic link: those are never replaced.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  [[nodiscard]] const File& file() const noexcept { return file_; }
  /// The temporary path, under which other processes can open the file before publication.
  [[nodiscard]] const std::filesystem::path& temporary_path() const noexcept {
    return file_.path();
  }
  /// The final name for a temporary name; empty for any other name.
  [[nodiscard]] static std::string published_name_of(const std::string& temporary_name);

  /// fsync, close, rename, fsync of the folder; without the two fsync for `end_of_process`. Throws
  /// FileError. At most once.
  void publish(Durability durability = Durability::crash_of_machine);

 private:
  std::filesystem::path path_;
  File file_;
  bool published_ = false;
};

/// Throws InputError if publishing `output` would replace `input`, under any name: a result must
/// not overwrite its own input.
void expect_not_replaced(const std::filesystem::path& input, const std::filesystem::path& output);

/// From now on SIGINT, SIGTERM and SIGHUP, unless ignored, remove this process's unfinished files
/// before they end it. For programs that make a file and have nothing else to save. At most 64
/// files at a time.
void remove_unfinished_files_on_signals() noexcept;

/// Removes unfinished files of that name left by killed processes. The caller must know that no
/// other process writes it. Files that cannot be removed stay.
void remove_unfinished_files_of(const std::filesystem::path& path) noexcept;

/// Writes `text` to a file, whole or not at all. Throws FileError.
void write_atomically(const std::filesystem::path& path, std::string_view text,
                      Durability durability = Durability::crash_of_machine);
/// Copies a file, whole or not at all. Throws FileError.
void copy_atomically(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace lockstep
