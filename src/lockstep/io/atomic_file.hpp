#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include <lockstep/io/file.hpp>

namespace lockstep {

/// A file that appears under its name whole, or not at all. It is written under a temporary name in
/// the same folder; publish() puts it on stable storage and renames it over what was there. Until
/// then a failure, or the end of this object, removes the temporary file and leaves the old one.
/// The temporary name is this object's alone, so that of several writers each publishes its own
/// bytes, the last one's stay. Only a killed process can leave the temporary file behind (see
/// remove_unfinished_files_on_signals).
class AtomicFile {
 public:
  /// Ends the temporary names: "step-00000938.h5.4711-0.partial", with process and number.
  static constexpr const char* temporary_suffix = ".partial";

  /// Makes the folder if need be and the empty temporary file. Throws FileError, also where the
  /// name is a device's, a pipe's, a socket's or a symbolic link's: those are never replaced.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  [[nodiscard]] const File& file() const noexcept { return file_; }
  /// Where other processes, which have to be told, can open it before it is published.
  [[nodiscard]] const std::filesystem::path& temporary_path() const noexcept {
    return file_.path();
  }
  /// The name of the file that a temporary name is of; empty for any other name.
  [[nodiscard]] static std::string published_name_of(const std::string& temporary_name);

  /// fsync, close, rename, fsync of the folder. Throws FileError. At most once.
  void publish();

 private:
  std::filesystem::path path_;
  File file_;
  bool published_ = false;
};

/// Throws InputError where publishing `output` would replace `input`, under whichever name: what is
/// read is not to be lost to what is made of it.
void expect_not_replaced(const std::filesystem::path& input, const std::filesystem::path& output);

/// From now on SIGINT, SIGTERM and SIGHUP remove this process's unfinished files before they end
/// it, but for those that are ignored: for programs that make a file and have nothing else to save.
/// At most 64 files at a time.
void remove_unfinished_files_on_signals() noexcept;

/// Removes what killed processes left of unfinished files of that name: for one who knows that
/// nobody else writes it. What cannot be removed stays.
void remove_unfinished_files_of(const std::filesystem::path& path) noexcept;

/// A file of `text` under that name, whole or not at all. Throws FileError.
void write_atomically(const std::filesystem::path& path, std::string_view text);
/// A file of the bytes of another one, whole or not at all. Throws FileError.
void copy_atomically(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace lockstep
