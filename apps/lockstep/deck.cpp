#include <fmt/format.h>

#include <lockstep/deck/deck.hpp>
#include <lockstep/train/standard_output.hpp>

#include "commands.hpp"
#include "known_deck.hpp"

namespace lockstep::utility {

ExitCode check_deck(const std::string& file, const std::vector<std::string>& overrides) {
  const Deck deck = check_known_deck(file, overrides);
  train::write_stdout(fmt::format("{}# good; hash {}\n", deck.resolved(), deck.hash()));
  return ExitCode::done;
}

ExitCode print_deck_reference() {
  train::write_stdout(train::deck_reference());
  return ExitCode::done;
}

}  // namespace lockstep::utility
