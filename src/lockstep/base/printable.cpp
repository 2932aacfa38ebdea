#include <lockstep/base/printable.hpp>

#include <algorithm>
#include <cstddef>

namespace lockstep {
namespace {

/// Bytes of the character that begins text[0], 0 if none does: a lone or a cut-off byte.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first < 0x80   ? 1
                            : first < 0xC2 ? 0
                            : first < 0xE0 ? 2
                            : first < 0xF0 ? 3
                            : first < 0xF5 ? 4
                                           : 0;
  const auto goes_on = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  const bool whole =
      bytes <= text.size() && bytes > 0 && std::ranges::all_of(text.substr(1, bytes - 1), goes_on);
  if (!whole || bytes < 3) return whole ? bytes : 0;
  const auto second =
      static_cast<unsigned char>(text[1]);  // longer than needed, a surrogate, or none
  const bool is_none = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
                       (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return is_none ? 0 : bytes;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1)
    return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F;
  return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;  // U+0080 to U+009F
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const std::size_t known = character_bytes(text), bytes = std::max<std::size_t>(1, known);
    const std::string_view character = text.substr(0, bytes);
    if (known > 0 && !is_control(character)) {
      shown += character;
    } else {
      for (const char c : character) {
        const auto byte = static_cast<unsigned char>(c);
        shown += {'\\', 'x', digits[byte >> 4U], digits[byte & 0xFU]};
      }
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace lockstep
