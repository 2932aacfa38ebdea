#include <lockstep/data/utf8.hpp>

#include <algorithm>
#include <span>

#include <lockstep/data/unicode_ranges.hpp>

namespace lockstep {
namespace {

bool is_in(std::span<const CodeRange> ranges, char32_t code) {
  const auto behind = std::ranges::upper_bound(ranges, code, {}, &CodeRange::first);
  return behind != ranges.begin() && code <= std::prev(behind)->last;
}

}  // namespace

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

bool is_letter(char32_t code) { return is_in(letters, code); }
bool is_number(char32_t code) { return is_in(numbers, code); }
bool is_white_space(char32_t code) { return is_in(white_space, code); }

}  // namespace lockstep
