#include <lockstep/base/utf8.hpp>

namespace lockstep {

Utf8Character utf8_character(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {lead, 1};
  const int bytes = lead >= 0xF0 && lead < 0xF5 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead >= 0xF5 || at + static_cast<std::size_t>(bytes) > text.size())
    return {lead, 0};
  char32_t code = lead & (0xFFU >> (bytes + 1));
  for (int i = 1; i < bytes; ++i) {
    const unsigned char next = byte(at + static_cast<std::size_t>(i));
    if ((next & 0xC0U) != 0x80U) return {lead, 0};
    code = code << 6U | (next & 0x3FU);
  }
  const bool too_long = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool no_character = (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF;
  return {code, too_long || no_character ? 0 : bytes};
}

}  // namespace lockstep
