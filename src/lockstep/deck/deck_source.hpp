#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/deck/deck_tree.hpp>

namespace lockstep::detail {

/// A deck file and all its includes, as one tree. See Deck::load.
[[nodiscard]] DeckTree load_deck(const std::filesystem::path& file);

/// Deck text with includes relative to the working directory. See Deck::parse.
[[nodiscard]] DeckTree load_deck_text(std::string_view text, const std::string& name);

/// The tree of one override, "table.key=value".
[[nodiscard]] DeckTree parse_override(const std::string& text);

}  // namespace lockstep::detail
