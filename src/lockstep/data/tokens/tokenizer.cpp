#include <lockstep/data/tokens/tokenizer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include <lockstep/base/error.hpp>
#include <lockstep/base/utf8.hpp>
#include <lockstep/data/files/json_file.hpp>
#include <lockstep/data/tokens/byte_pairs.hpp>
#include <lockstep/io/atomic_file.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Calls f(character, offset) for each character of the text. Throws InputError if it is not UTF-8.
template <class F>
void each_character(std::string_view text, const F& f) {
  for_each_utf8_character(text, [&](const Utf8Character& character, std::size_t at) {
    if (character.bytes == 0) {
      throw InputError(fmt::format(
          "byte {} of the text, {:#x}, is not UTF-8. Convert the text, or use bytes as tokens.", at,
          static_cast<unsigned char>(text[at])));
    }
    f(text.substr(at, static_cast<std::size_t>(character.bytes)), at);
  });
}

[[noreturn]] void refuse_token(std::uint16_t token, std::size_t vocabulary) {
  throw InputError(
      fmt::format("token {} is outside the tokenizer's vocabulary of {}", token, vocabulary));
}

class Characters final : public Tokenizer {
 public:
  explicit Characters(std::vector<std::string> characters) : characters_(std::move(characters)) {
    for (std::size_t i = 0; i < characters_.size(); ++i)
      numbers_.emplace(characters_[i], static_cast<std::uint16_t>(i));
  }

  [[nodiscard]] std::int64_t vocabulary() const override { return std::ssize(characters_); }

  [[nodiscard]] std::vector<std::uint16_t> encode(std::string_view text) const override {
    std::vector<std::uint16_t> tokens;
    each_character(text, [&](std::string_view character, std::size_t at) {
      const auto found = numbers_.find(character);
      if (found == numbers_.end()) {
        throw InputError(fmt::format(
            "the character '{}' at byte {} of the text is not one of the {} in the vocabulary",
            character, at, characters_.size()));
      }
      tokens.push_back(found->second);
    });
    return tokens;
  }

  [[nodiscard]] std::string decode(std::span<const std::uint16_t> tokens) const override {
    std::string text;
    for (const std::uint16_t token : tokens) {
      if (token >= characters_.size()) refuse_token(token, characters_.size());
      text += characters_[token];
    }
    return text;
  }

 private:
  std::vector<std::string> characters_;
  std::map<std::string, std::uint16_t, std::less<>> numbers_;
};

class Bytes final : public Tokenizer {
 public:
  [[nodiscard]] std::int64_t vocabulary() const override { return 256; }
  [[nodiscard]] std::vector<std::uint16_t> encode(std::string_view text) const override {
    std::vector<std::uint16_t> tokens(text.size());
    std::ranges::transform(text, tokens.begin(),
                           [](char c) { return static_cast<unsigned char>(c); });
    return tokens;
  }
  [[nodiscard]] std::string decode(std::span<const std::uint16_t> tokens) const override {
    std::string text;
    for (const std::uint16_t token : tokens) {
      if (token >= 256) refuse_token(token, 256);
      text += static_cast<char>(token);
    }
    return text;
  }
};

constexpr const char* file_name = "tokenizer.json";

}  // namespace

std::vector<std::string> characters_of(std::string_view text) {
  std::set<std::string_view> characters;  // UTF-8 sorts like its code points
  each_character(text,
                 [&](std::string_view character, std::size_t) { characters.insert(character); });
  if (characters.size() > std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1) {
    throw InputError(
        fmt::format("the text has {} different characters, more than the 65536 tokens of 16 bits. "
                    "Use bytes as tokens.",
                    characters.size()));
  }
  return {characters.begin(), characters.end()};
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerChoice& choice, const fs::path& folder) {
  if (choice.kind == "bytes") return std::make_unique<Bytes>();
  if (choice.kind == "gpt2") return load_byte_pairs(folder);
  if (choice.kind != "characters") {
    throw InputError(
        fmt::format("there is no tokenizer '{}': choose characters, bytes or gpt2", choice.kind));
  }
  if (choice.characters.empty())
    throw InputError("a tokenizer of characters needs a list of them, but it is empty");
  return std::make_unique<Characters>(choice.characters);
}

TokenizerChoice read_tokenizer_choice(const fs::path& folder) {
  const fs::path file = folder / file_name;
  if (!fs::exists(file)) return {};
  constexpr std::int64_t most_bytes = std::int64_t{16} << 20U;  // 65536 characters take 1 MiB
  TokenizerChoice choice;
  try {
    const auto json = detail::read_json_file(file, most_bytes, /*deepest=*/2);
    choice.kind = json.at("kind").get<std::string>();
    if (choice.kind == "characters")
      choice.characters = json.at("characters").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw InputError(
        fmt::format("{} does not give the kind of the tokenizer. Make the token "
                    "files again with `gpt tokens`.",
                    file.string()));
  }
  return choice;
}

void write_tokenizer_choice(const fs::path& folder, const TokenizerChoice& choice) {
  nlohmann::ordered_json json{{"kind", choice.kind}};
  if (choice.kind == "characters") json["characters"] = choice.characters;
  write_atomically(folder / file_name, json.dump(1) + "\n");
}

}  // namespace lockstep
