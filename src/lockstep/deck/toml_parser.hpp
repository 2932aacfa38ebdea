#pragma once
#include <string>
#include <string_view>

#include <lockstep/deck/deck_tree.hpp>

namespace lockstep::detail {

/// Parses TOML text into tables and keys; `source` names it in positions. With `numbered` false
/// positions carry no line numbers (an override is one line). Throws InputError for invalid TOML
/// and for a key or table given twice.
[[nodiscard]] DeckTree parse_toml(std::string_view text, const std::string& source,
                                  bool numbered = true);

}  // namespace lockstep::detail
