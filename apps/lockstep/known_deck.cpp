#include "known_deck.hpp"

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/language_model.hpp>
#include <lockstep/train/task/regression.hpp>
#include <lockstep/train/task/task_options.hpp>

namespace lockstep::utility {
namespace {

std::unique_ptr<train::Task> make_known_task(Deck& deck) {
  const train::TaskOptions options = train::read_task_options(deck);
  check_nothing_unknown(deck);  // before data are loaded
  switch (target_kind(options.data)) {
    case TargetKind::values:
      return std::make_unique<train::Regression>(deck);
    case TargetKind::tokens:
      return std::make_unique<train::LanguageModel>(deck);
    case TargetKind::classes:
      break;
  }
  return std::make_unique<train::Classification>(deck);
}

}  // namespace

train::Assignment read_known_deck(const std::string& file,
                                  const std::vector<std::string>& overrides) {
  return train::read_assignment(file, overrides, make_known_task);
}

void check_nothing_unknown(const Deck& deck) {
  try {
    deck.check_all_read();
  } catch (const InputError& error) {
    throw InputError(
        fmt::format("{}\nlockstep reads the decks of classify, regress and gpt. A program of your "
                    "own checks its deck itself: PROGRAM DECK --dry-run, --describe or --doctor.",
                    error.what()));
  }
}

Deck check_known_deck(const std::string& file, const std::vector<std::string>& overrides) {
  auto deck = Deck::load(file, overrides);
  static_cast<void>(train::read_run_plan(deck));
  static_cast<void>(train::read_task_options(deck));
  check_nothing_unknown(deck);
  return deck;
}

std::string hash_of_text(const Deck& deck, const std::string& file,
                         const std::vector<std::string>& overrides) {
  constexpr std::int64_t most_bytes = std::int64_t{16} << 20U;
  std::string text = deck.resolved() + read_small_file(file, most_bytes);
  for (const std::string& one : overrides) text += one + "\n";
  return to_hex(hash64(text.data(), text.size()));
}

}  // namespace lockstep::utility
