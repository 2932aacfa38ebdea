#include <fmt/format.h>

#include <filesystem>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/train/report/standard_output.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task_options.hpp>

#include "bundled_program.hpp"
#include "commands.hpp"
#include "elastic/find_program.hpp"
#include "known_deck.hpp"
#include "scaling/compare.hpp"
#include "scaling/study.hpp"

namespace lockstep::utility {
namespace {

namespace fs = std::filesystem;

scaling::Assignment read_assignment(const scaling::Options& options) {
  constexpr std::int64_t most_bytes = std::int64_t{16} << 20U;
  scaling::Assignment assignment{.identity = scaling::identity_here(), .program = {}};
  train::RunPlan plan;
  std::string program = options.program;
  if (program.empty()) {
    Deck deck = check_known_deck(options.deck, options.overrides);
    assignment.identity.deck_hash = deck.hash();
    plan = train::read_run_plan(deck);
    program = bundled_program(train::read_task_options(deck).data);
  } else {
    if (elastic::find_program(program).empty())
      throw InputError(program + " is no program that can be started");
    // What the tables of its task mean is the program's own: their text has to do.
    Deck deck = Deck::load(options.deck, options.overrides);
    plan = train::read_run_plan(deck);
    const std::string text = deck.resolved() + read_small_file(options.deck, most_bytes);
    assignment.identity.deck_hash = to_hex(hash64(text.data(), text.size()));
  }
  scaling::Identity& identity = assignment.identity;
  identity.deck = options.deck;
  identity.mode = options.mode;
  identity.program = fs::path(program).filename().string();
  identity.batch_size = plan.train.batch_size;
  identity.steps = options.steps;
  identity.warmup = options.warmup;
  identity.threads = cores_a_rank(options.threads, plan);
  assignment.program = {program, options.deck};
  return assignment;
}

}  // namespace

ExitCode scale(const scaling::Options& options) {
  if (!options.compare.empty()) {
    const auto before = scaling::read_study(options.compare.at(0));
    const auto now = scaling::read_study(options.compare.at(1));
    train::write_stdout(scaling::table(scaling::compare(before, now, options.across)));
    return ExitCode::done;
  }
  if (options.deck.empty()) throw InputError("name a DECK to measure, or two studies to --compare");
  if (options.output.empty()) throw InputError("--output names no folder for the study");
  return scaling::run_study(options, read_assignment(options));
}

}  // namespace lockstep::utility
