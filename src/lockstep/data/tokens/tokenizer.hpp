#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Converts text (UTF-8) to tokens and back: decode(encode(text)) == text. Immutable.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Tokens are in [0, vocabulary()).
  [[nodiscard]] virtual std::int64_t vocabulary() const = 0;
  /// Throws InputError for text outside the vocabulary.
  [[nodiscard]] virtual std::vector<std::uint16_t> encode(std::string_view text) const = 0;
  /// Tokens that begin or end within a character give bytes that are not whole UTF-8. Throws
  /// InputError for a token outside the vocabulary.
  [[nodiscard]] virtual std::string decode(std::span<const std::uint16_t> tokens) const = 0;
  /// The token before each text of a collection, if there is one.
  [[nodiscard]] virtual std::optional<std::uint16_t> end_of_text() const { return std::nullopt; }
};

/// Description of the tokenizer in decks and folders of token files.
struct TokenizerChoice {
  /// "" unknown; "characters": of a list; "bytes": 256; "gpt2": byte-pair encoding with GPT-2's
  /// vocab.json and merges.txt.
  std::string kind;
  std::vector<std::string> characters = {};
};

/// The distinct characters of `text`, in the order of their code points. Throws InputError if it is
/// not UTF-8 or has more than 65536 of them.
[[nodiscard]] std::vector<std::string> characters_of(std::string_view text);

/// `folder` has the files of "gpt2". Throws InputError for an unknown choice, and if files are
/// missing or damaged.
[[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerChoice& choice,
                                                        const std::filesystem::path& folder);

/// The choice in tokenizer.json of a folder of token files; unknown if there is no such file.
/// Throws InputError if it cannot be read.
[[nodiscard]] TokenizerChoice read_tokenizer_choice(const std::filesystem::path& folder);
void write_tokenizer_choice(const std::filesystem::path& folder, const TokenizerChoice& choice);

}  // namespace lockstep
