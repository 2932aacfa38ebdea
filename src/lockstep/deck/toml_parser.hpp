#pragma once
#include <string>
#include <string_view>

#include <lockstep/deck/deck_tree.hpp>

namespace lockstep::detail {

/// The tables and keys of TOML text; `source` names it in positions. With `numbered` false the
/// positions carry no lines (an override is one line). Throws InputError for what is not TOML and
/// for a key or table that is given twice.
[[nodiscard]] DeckTree parse_toml(std::string_view text, const std::string& source,
                                  bool numbered = true);

}  // namespace lockstep::detail
