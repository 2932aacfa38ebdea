#pragma once
#include <cstdint>
#include <filesystem>
#include <span>

#include <lockstep/io/mapped_file.hpp>

namespace lockstep {

/// A file of tokens as llm.c has them (https://github.com/karpathy/llm.c), little-endian: a header
/// of 256 i32 (20240520; version 1; how many tokens; 0, or how many different ones there may be,
/// which llm.c does not say; zeros), then the tokens as u16. Mapped into memory, so that its size
/// does not matter.
class TokenFile {
 public:
  /// Throws InputError for a file that is missing, not of this kind or version, or cut short.
  explicit TokenFile(const std::filesystem::path& path);

  [[nodiscard]] std::span<const std::uint16_t> tokens() const noexcept { return tokens_; }
  /// Tokens are below it; 0: the file does not say.
  [[nodiscard]] std::int64_t vocabulary() const noexcept { return vocabulary_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }

 private:
  MappedFile file_;
  std::span<const std::uint16_t> tokens_;
  std::int64_t vocabulary_ = 0;
};

/// Appears whole or not at all. Throws FileError; InputError for more tokens than the header counts
/// (2^31 - 1).
void write_token_file(const std::filesystem::path& path, std::span<const std::uint16_t> tokens,
                      std::int64_t vocabulary);

}  // namespace lockstep
