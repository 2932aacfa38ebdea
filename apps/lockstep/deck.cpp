#include <fmt/format.h>

#include <lockstep/data/data_options.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/train/run_plan.hpp>

#include "commands.hpp"

namespace lockstep::utility {

ExitCode check_deck(const std::string& file, const std::vector<std::string>& overrides) {
  auto deck = Deck::load(file, overrides);
  static_cast<void>(train::read_run_plan(deck));
  static_cast<void>(deck.read<nn::ModelOptions>("model"));
  static_cast<void>(deck.read<DataOptions>("data"));
  static_cast<void>(deck.read<train::ClassLossOptions>("loss"));
  deck.check_all_read();
  fmt::print("{}# good; hash {}\n", deck.resolved(), deck.hash());
  return ExitCode::done;
}

ExitCode print_deck_reference() {
  fmt::print("{}", train::deck_reference());
  return ExitCode::done;
}

}  // namespace lockstep::utility
