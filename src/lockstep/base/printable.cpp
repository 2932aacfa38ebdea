#include <lockstep/base/printable.hpp>

#include <algorithm>
#include <cstddef>

#include <lockstep/base/utf8.hpp>

namespace lockstep {
namespace {

/// C0 except line ends and tabs, DEL, and C1.
bool is_control(char32_t code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0);
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character known = utf8_character(text);
    const std::string_view character =
        text.substr(0, static_cast<std::size_t>(std::max(1, known.bytes)));
    if (known.bytes > 0 && !is_control(known.code)) {
      shown += character;
    } else {
      for (const char c : character) {
        const auto byte = static_cast<unsigned char>(c);
        shown += {'\\', 'x', digits[byte >> 4U], digits[byte & 0xFU]};
      }
    }
    text.remove_prefix(character.size());
  }
  return shown;
}

std::string without_middle(const std::string& text, std::size_t longest) {
  if (text.size() <= longest) return text;
  const auto is_inside_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  std::size_t left = longest * 7 / 10, right = text.size() - longest / 4;
  while (left > 0 && is_inside_character(left)) --left;
  while (right < text.size() && is_inside_character(right)) ++right;
  return text.substr(0, left) + " ... (" + std::to_string(right - left) +
         " bytes are left out) ... " + text.substr(right);
}

}  // namespace lockstep
