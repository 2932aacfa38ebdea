#pragma once
#include <cstddef>
#include <string_view>

namespace lockstep {

/// One character of a text in UTF-8.
struct Utf8Character {
  char32_t code;  ///< its code point; the byte itself if it does not start a character
  int bytes;      ///< 1 to 4; 0: invalid UTF-8
};

/// The character that begins at text[at], at < text.size(): the Unicode Standard 15.0, table 3-7.
[[nodiscard]] Utf8Character utf8_character(std::string_view text, std::size_t at = 0);

/// Calls f(character, position) for each character of the text. f must throw if `bytes` is 0.
template <class F>
void for_each_utf8_character(std::string_view text, const F& f) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = utf8_character(text, at);
    f(character, at);
    at += static_cast<std::size_t>(character.bytes);
  }
}

}  // namespace lockstep
