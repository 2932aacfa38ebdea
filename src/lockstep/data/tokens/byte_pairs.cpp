#include <lockstep/data/tokens/byte_pairs.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_map>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/base/utf8.hpp>
#include <lockstep/data/files/json_file.hpp>
#include <lockstep/data/tokens/unicode.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

void append_utf8(std::string& text, char32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else {
    text += static_cast<char>(0xC0U | code >> 6U);
    text += static_cast<char>(0x80U | (code & 0x3FU));
  }
}

/// The two files write each byte as a printable character: itself if it is one in Latin-1, else the
/// next unused one from 256 on.
struct ByteAlphabet {
  std::array<std::string, 256> character;
  std::unordered_map<char32_t, unsigned char> byte;

  ByteAlphabet() {
    char32_t next = 256;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
      const char32_t code = printable ? b : next++;
      append_utf8(character[b], code);
      byte.emplace(code, static_cast<unsigned char>(b));
    }
  }
  static const ByteAlphabet& get() {
    static const ByteAlphabet alphabet;
    return alphabet;
  }
  /// Texts with characters outside the alphabet stay as they are.
  [[nodiscard]] std::string bytes_of(const std::string& characters) const {
    std::string bytes;
    for (std::size_t at = 0; at < characters.size();) {
      const Utf8Character c = utf8_character(characters, at);
      const auto known = byte.find(c.code);
      if (c.bytes == 0 || known == byte.end()) return characters;
      bytes += static_cast<char>(known->second);
      at += static_cast<std::size_t>(c.bytes);
    }
    return bytes;
  }
};

/// The end of the word that begins at text[at], by GPT-2's pattern:
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// Bytes that are not UTF-8 count as punctuation.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  [[nodiscard]] std::size_t end_of_word(std::size_t at) const {
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (text_.substr(at).starts_with(ending)) return at + ending.size();
    }
    const std::size_t begin = text_[at] == ' ' && at + 1 < text_.size() ? at + 1 : at;
    const Class word = class_at(begin).first;
    if (word != Class::space) return end_of_run(begin, word);
    // White space: its last character belongs to the following word, or is a word.
    std::size_t end = at, last = at;
    while (end < text_.size() && class_at(end).first == Class::space) {
      last = end;
      end += class_at(end).second;
    }
    return end == text_.size() || last == at ? end : last;
  }

 private:
  enum class Class { letter, number, space, other };

  [[nodiscard]] std::pair<Class, std::size_t> class_at(std::size_t at) const {
    const Utf8Character c = utf8_character(text_, at);
    if (c.bytes == 0) return {Class::other, 1};
    const Class found = is_letter(c.code)        ? Class::letter
                        : is_number(c.code)      ? Class::number
                        : is_white_space(c.code) ? Class::space
                                                 : Class::other;
    return {found, static_cast<std::size_t>(c.bytes)};
  }
  [[nodiscard]] std::size_t end_of_run(std::size_t at, Class of) const {
    while (at < text_.size() && class_at(at).first == of) at += class_at(at).second;
    return at;
  }

  std::string_view text_;
};

using Pair = std::pair<std::uint16_t, std::uint16_t>;
struct PairHash {
  std::size_t operator()(const Pair& pair) const noexcept {
    return std::hash<std::uint32_t>()(static_cast<std::uint32_t>(pair.first) << 16U | pair.second);
  }
};

class BytePairs final : public Tokenizer {
 public:
  explicit BytePairs(const fs::path& folder) {
    const auto numbers = read_vocabulary(folder / "vocab.json");
    read_merges(folder / "merges.txt", numbers);
    for (std::size_t b = 0; b < 256; ++b)
      of_byte_[b] = number_of(numbers, ByteAlphabet::get().character[b], folder / "vocab.json");
    const auto end = numbers.find("<|endoftext|>");
    if (end != numbers.end()) end_of_text_ = end->second;
  }

  [[nodiscard]] std::int64_t vocabulary() const override { return std::ssize(text_); }
  [[nodiscard]] std::optional<std::uint16_t> end_of_text() const override { return end_of_text_; }

  [[nodiscard]] std::vector<std::uint16_t> encode(std::string_view text) const override {
    std::vector<std::uint16_t> tokens;
    std::unordered_map<std::string_view, std::vector<std::uint16_t>> known;
    const Words words(text);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = words.end_of_word(at);
      const std::string_view word = text.substr(at, end - at);
      auto found = known.find(word);
      if (found == known.end()) found = known.emplace(word, encode_word(word)).first;
      tokens.insert(tokens.end(), found->second.begin(), found->second.end());
      at = end;
    }
    return tokens;
  }

  [[nodiscard]] std::string decode(std::span<const std::uint16_t> tokens) const override {
    std::string text;
    for (const std::uint16_t token : tokens) {
      if (token >= text_.size()) {
        throw InputError(fmt::format("token {} is outside the tokenizer's vocabulary of {}", token,
                                     text_.size()));
      }
      text += text_[token];
    }
    return text;
  }

 private:
  using Numbers = std::unordered_map<std::string, std::uint16_t>;
  struct Merge {
    std::size_t rank;
    std::uint16_t token;
  };

  static constexpr std::int64_t most_bytes = std::int64_t{64} << 20U;  // GPT-2's have 1 MB

  static void expect_there(const fs::path& file) {
    if (fs::exists(file)) return;
    throw InputError(fmt::format(
        "cannot read {}: the gpt2 tokenizer needs vocab.json and merges.txt of GPT-2 in one folder",
        file.string()));
  }

  static std::uint16_t number_of(const Numbers& numbers, const std::string& token,
                                 const fs::path& file) {
    const auto found = numbers.find(token);
    if (found != numbers.end()) return found->second;
    throw InputError(fmt::format("{} has no token '{}': it is not a vocabulary of GPT-2's kind",
                                 file.string(), token));
  }

  Numbers read_vocabulary(const fs::path& file) {
    expect_there(file);
    const auto json = detail::read_json_file(file, most_bytes, /*deepest=*/1);
    if (!json.is_object() || json.empty() ||
        json.size() > std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1) {
      throw InputError(fmt::format("{} is not a list of 1 to 65536 tokens, {{\"token\": number}}",
                                   file.string()));
    }
    Numbers numbers;
    text_.resize(json.size());
    std::vector<bool> there(json.size());
    for (const auto& [token, number] : json.items()) {
      const auto n = number.is_number_unsigned() ? number.get<std::size_t>() : json.size();
      if (n >= json.size() || there[n]) {
        throw InputError(
            fmt::format("{}: token '{}' has number {}, but the {} tokens are to have those from 0 "
                        "on, each once",
                        file.string(), token, number.dump(), json.size()));
      }
      there[n] = true;
      text_[n] = ByteAlphabet::get().bytes_of(token);
      numbers.emplace(token, static_cast<std::uint16_t>(n));
    }
    return numbers;
  }

  void read_merges(const fs::path& file, const Numbers& numbers) {
    expect_there(file);
    std::istringstream in(read_small_file(file, most_bytes));
    for (std::string line; std::getline(in, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.empty() || (merges_.empty() && line.starts_with("#version"))) continue;
      const auto space = line.find(' ');
      if (space == std::string::npos) {
        throw InputError(fmt::format("{}: '{}' is not a pair of tokens", file.string(), line));
      }
      const std::string left = line.substr(0, space), right = line.substr(space + 1);
      const Pair pair{number_of(numbers, left, file), number_of(numbers, right, file)};
      const std::size_t rank = merges_.size();
      merges_.emplace(pair, Merge{rank, number_of(numbers, left + right, file)});
    }
  }

  /// Repeatedly joins the pair that is first in the list of merges.
  [[nodiscard]] std::vector<std::uint16_t> encode_word(std::string_view word) const {
    std::vector<std::uint16_t> tokens;
    for (const char c : word) tokens.push_back(of_byte_[static_cast<unsigned char>(c)]);
    while (tokens.size() > 1) {
      const Merge* best = nullptr;
      Pair of_best;
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        const auto merge = merges_.find({tokens[i], tokens[i + 1]});
        if (merge == merges_.end() || (best && merge->second.rank >= best->rank)) continue;
        best = &merge->second;
        of_best = merge->first;
      }
      if (!best) break;
      std::size_t out = 0;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool joins =
            i + 1 < tokens.size() && tokens[i] == of_best.first && tokens[i + 1] == of_best.second;
        tokens[out++] = joins ? best->token : tokens[i];
        if (joins) ++i;
      }
      tokens.resize(out);
    }
    return tokens;
  }

  std::vector<std::string> text_;  ///< [token]: its bytes
  std::array<std::uint16_t, 256> of_byte_{};
  std::unordered_map<Pair, Merge, PairHash> merges_;
  std::optional<std::uint16_t> end_of_text_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_byte_pairs(const fs::path& folder) {
  return std::make_unique<BytePairs>(folder);
}

}  // namespace lockstep
