#pragma once
#include <cstdint>
#include <filesystem>
#include <span>

#include <lockstep/data/files/data_file.hpp>

namespace lockstep {

/// A file of tokens as llm.c has them (https://github.com/karpathy/llm.c), little-endian: a header
/// of 256 i32 (20240520; version 1; how many tokens; 0, or how many different ones there may be,
/// which llm.c does not say; zeros), then the tokens as u16. Read with pread, so that its size does
/// not matter, and one that is cut short meanwhile is an error. (Mapped into memory it would end
/// the process by SIGBUS. A window of 256 tokens takes 1.2 us instead of 0.2, of the loader's
/// thread, and 17 where its file has to be opened again.)
/// It need not stay open, so that their number does not matter either (DataFile).
class TokenFile {
 public:
  /// Throws InputError for a file that is missing, not of this kind or version, or cut short.
  explicit TokenFile(const std::filesystem::path& path);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }  ///< in tokens
  /// Fills `out` with the tokens from `begin` on. Allocates nothing while the file stays open.
  /// Throws InputError, naming file and byte, if they are not there any more.
  void read(std::int64_t begin, std::span<std::uint16_t> out) const;
  /// Throws InputError if somebody has written to the file since it was opened.
  void expect_unchanged() const { file_.expect_unchanged(); }
  /// Tokens are below it; 0: the file does not say.
  [[nodiscard]] std::int64_t vocabulary() const noexcept { return vocabulary_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }

 private:
  DataFile file_;
  std::int64_t size_ = 0, vocabulary_ = 0;
};

/// Appears whole or not at all. Throws FileError; InputError for more tokens than the header counts
/// (2^31 - 1).
void write_token_file(const std::filesystem::path& path, std::span<const std::uint16_t> tokens,
                      std::int64_t vocabulary);

}  // namespace lockstep
