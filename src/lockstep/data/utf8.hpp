#pragma once
#include <cstdint>
#include <string_view>

namespace lockstep {

/// One character of a text in UTF-8.
struct Utf8Character {
  char32_t code;
  int bytes;  ///< 0: what stands there is no UTF-8
};

/// The character that begins at text[at], at < text.size().
[[nodiscard]] Utf8Character utf8_character(std::string_view text, std::size_t at);

/// Unicode's general categories L* and N*, and its property White_Space.
[[nodiscard]] bool is_letter(char32_t code);
[[nodiscard]] bool is_number(char32_t code);
[[nodiscard]] bool is_white_space(char32_t code);

}  // namespace lockstep
