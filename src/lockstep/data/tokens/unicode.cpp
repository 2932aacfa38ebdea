#include <lockstep/data/tokens/unicode.hpp>

#include <algorithm>
#include <span>

#include <lockstep/data/tokens/unicode_ranges.hpp>

namespace lockstep {
namespace {

bool is_in(std::span<const CodeRange> ranges, char32_t code) {
  const auto behind = std::ranges::upper_bound(ranges, code, {}, &CodeRange::first);
  return behind != ranges.begin() && code <= std::prev(behind)->last;
}

}  // namespace

bool is_letter(char32_t code) { return is_in(letters, code); }
bool is_number(char32_t code) { return is_in(numbers, code); }
bool is_white_space(char32_t code) { return is_in(white_space, code); }

}  // namespace lockstep
