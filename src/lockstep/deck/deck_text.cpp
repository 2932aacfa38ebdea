#include <lockstep/deck/deck_text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include <lockstep/base/utf8.hpp>

namespace lockstep::detail {
namespace {

constexpr int most_parts = 32;

/// NUL bytes are refused as well.
void check_is_utf8(std::string_view text, DeckPosition position) {
  for_each_utf8_character(text, [&](const Utf8Character& character, std::size_t at) {
    if (character.bytes == 0 || character.code == 0) {
      throw deck_error(position,
                       fmt::format("byte {:#04x} at offset {} is not UTF-8 text. Decks are TOML "
                                   "text files; is this the right file?",
                                   static_cast<unsigned char>(text[at]), at));
    }
    if (text[at] == '\n' && position.line > 0) ++position.line;
  });
}

// Offset after the TOML string that begins at `at`; the text's end if it is not closed.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool long_string = text.substr(at).starts_with(three);
  const auto closing = long_string ? three : three.substr(0, 1);
  for (at += closing.size(); at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (text.substr(at).starts_with(closing)) {
      at += closing.size();
      // A long string may end with two more quotes of its own.
      for (int more = 0; long_string && more < 2 && at < text.size() && text[at] == quote; ++more) {
        ++at;
      }
      return at;
    } else if (text[at] == '\n' && !long_string) {
      return at;
    }
  }
  return text.size();
}

void check_keys_are_short(std::string_view text, DeckPosition position) {
  int dots = 0;  // since the last character that ends a key
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    std::size_t next = at + 1;
    if (c == '"' || c == '\'') {
      next = end_of_string(text, at);
    } else if (c == '#') {
      next = std::min(text.find('\n', at), text.size());
    } else if (c == '.') {
      ++dots;
    } else if (c == '=' || c == ',' || c == '[' || c == '{' || c == '\n') {
      dots = 0;
    }
    if (dots >= most_parts) {
      throw deck_error(position,
                       fmt::format("a key has more than {} parts. Use shorter keys.", most_parts));
    }
    if (position.line > 0) {
      const auto passed = text.substr(at, next - at);
      position.line += static_cast<int>(std::ranges::count(passed, '\n'));
    }
    at = next;
  }
}

}  // namespace

void check_deck_text(std::string_view text, DeckPosition position) {
  check_is_utf8(text, position);
  check_keys_are_short(text, std::move(position));
}

}  // namespace lockstep::detail
