#pragma once
// Decks as the bundled applications read them.
#include <string>
#include <vector>

#include <lockstep/train/run/assignment.hpp>

namespace lockstep::utility {

/// Reads a deck of classify or of regress, and loads its data. Which of the two: regress fits
/// targets that are floating-point numbers, which only an HDF5 file can have. Throws InputError;
/// for a table or key that neither knows, with a hint at the program that may.
[[nodiscard]] train::Assignment read_known_deck(const std::string& file,
                                                const std::vector<std::string>& overrides);

/// The same without loading data: the deck of a run, all of it read.
[[nodiscard]] Deck check_known_deck(const std::string& file,
                                    const std::vector<std::string>& overrides);

/// That hint, for a deck whose known tables have been read.
void check_nothing_unknown(const Deck& deck);

}  // namespace lockstep::utility
