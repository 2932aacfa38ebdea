#include <fmt/format.h>

#include <lockstep/deck/deck.hpp>
#include <lockstep/train/run_plan.hpp>
#include <lockstep/train/standard_output.hpp>

#include "commands.hpp"
#include "known_deck.hpp"

namespace lockstep::utility {

ExitCode check_deck(const std::string& file, const std::vector<std::string>& overrides) {
  auto deck = Deck::load(file, overrides);
  static_cast<void>(train::read_run_plan(deck));
  static_cast<void>(train::read_task_options(deck));
  check_nothing_unknown(deck);
  train::write_stdout(fmt::format("{}# good; hash {}\n", deck.resolved(), deck.hash()));
  return ExitCode::done;
}

ExitCode print_deck_reference() {
  train::write_stdout(train::deck_reference());
  return ExitCode::done;
}

}  // namespace lockstep::utility
