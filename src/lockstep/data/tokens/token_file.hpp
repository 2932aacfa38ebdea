#pragma once
#include <cstdint>
#include <filesystem>
#include <span>

#include <lockstep/data/files/data_file.hpp>

namespace lockstep {

/// A file of tokens in llm.c's format (https://github.com/karpathy/llm.c), little-endian: a header
/// of 256 i32 (20240520; version 1; number of tokens; size of the vocabulary, or 0 as llm.c writes;
/// zeros), then the tokens as u16. It is read with pread, so its size does not matter, and
/// truncation while it is read is an error. (If mapped into memory, truncation would end the
/// process by SIGBUS. A window of 256 tokens takes the loader's thread 1.2 us instead of 0.2 us,
/// and 17 us if its file has to be reopened.) It need not stay open, so the number of files does
/// not matter either (DataFile).
class TokenFile {
 public:
  /// Throws InputError for a file that is missing, truncated, or of another kind or version.
  explicit TokenFile(const std::filesystem::path& path);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }  ///< number of tokens
  /// Fills `out` with the tokens from `begin` on. Allocates nothing while the file stays open.
  /// Throws InputError, naming file and byte, if they no longer exist.
  void read(std::int64_t begin, std::span<std::uint16_t> out) const;
  /// Throws InputError if the file was written to since it was opened.
  void expect_unchanged() const { file_.expect_unchanged(); }
  /// Tokens are below this; 0: not given in the file.
  [[nodiscard]] std::int64_t vocabulary() const noexcept { return vocabulary_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }

 private:
  DataFile file_;
  std::int64_t size_ = 0, vocabulary_ = 0;
};

/// Writes the file whole or not at all. Throws FileError; InputError for more tokens than the
/// header can count (2^31 - 1).
void write_token_file(const std::filesystem::path& path, std::span<const std::uint16_t> tokens,
                      std::int64_t vocabulary);

}  // namespace lockstep
