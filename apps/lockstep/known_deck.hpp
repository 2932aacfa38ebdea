#pragma once
// Reads decks as the bundled applications do.
#include <string>
#include <vector>

#include <lockstep/train/run/assignment.hpp>

namespace lockstep::utility {

/// Reads a deck of classify or regress, and loads its data. Targets that are floating-point
/// numbers, which only an HDF5 file can have, mean regress. Throws InputError; an unknown table or
/// key gives a hint at the program that may know it.
[[nodiscard]] train::Assignment read_known_deck(const std::string& file,
                                                const std::vector<std::string>& overrides);

/// The same without loading data: the deck of a run, read completely.
[[nodiscard]] Deck check_known_deck(const std::string& file,
                                    const std::vector<std::string>& overrides);

/// In place of Deck::hash() for the deck `file`, read with these overrides, of a program that alone
/// knows what the tables of its task mean: of their text.
[[nodiscard]] std::string hash_of_text(const Deck& deck, const std::string& file,
                                       const std::vector<std::string>& overrides);

/// The hint for a deck whose known tables have been read.
void check_nothing_unknown(const Deck& deck);

}  // namespace lockstep::utility
