#pragma once
#include <filesystem>
#include <string_view>

#include <lockstep/io/file.hpp>

namespace lockstep {

/// A file that appears under its name whole, or not at all. It is written under a temporary name in
/// the same folder; publish() puts it on stable storage and renames it over what was there. Until
/// then a failure, or the end of this object, removes the temporary file and leaves the old one.
/// Only a killed process can leave the temporary file behind; the next one of that name replaces
/// it.
class AtomicFile {
 public:
  /// Ends the temporary names: "step-00000938.h5.partial".
  static constexpr const char* temporary_suffix = ".partial";

  /// Makes the folder if need be and the empty temporary file. Throws FileError, also where one of
  /// the two names is a device, a pipe, a socket or a symbolic link: those are never
  /// replaced, nor written to.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  [[nodiscard]] const File& file() const noexcept { return file_; }
  /// Where other processes can open it before it is published.
  [[nodiscard]] const std::filesystem::path& temporary_path() const noexcept {
    return file_.path();
  }
  [[nodiscard]] static std::filesystem::path temporary_path_of(const std::filesystem::path& path);

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

/// A file of `text` under that name, whole or not at all. Throws FileError.
void write_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace lockstep
