#pragma once
#include <string_view>

#include <lockstep/deck/deck_tree.hpp>

namespace lockstep::detail {

/// Throws InputError unless `text`, which begins at `position`, is UTF-8 without NUL bytes, and no
/// key has more than 32 parts. Every part is a nested table, and the parser recurses.
void check_deck_text(std::string_view text, DeckPosition position);

}  // namespace lockstep::detail
