#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

/// Text as it may reach a terminal, of whatever origin: a control character (of ASCII or of
/// Latin-1), which could begin an escape sequence, and a byte that is not UTF-8 are written
/// `\x1b`. Ends of lines and tabs stay. Error's messages are made printable this way; do the same
/// for other output with names from files.
[[nodiscard]] std::string printable(std::string_view text);

/// UTF-8 text of at most `longest` bytes: of a longer one the first 70 % of these, the number of
/// bytes that are left out, and the last 25 %.
[[nodiscard]] std::string without_middle(const std::string& text, std::size_t longest);

}  // namespace lockstep
