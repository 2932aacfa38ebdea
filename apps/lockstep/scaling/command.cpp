#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <tuple>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/train/report/standard_output.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task_options.hpp>

#include "bundled_program.hpp"
#include "commands.hpp"
#include "elastic/find_program.hpp"
#include "known_deck.hpp"
#include "scaling/compare.hpp"
#include "scaling/model/rehearsal.hpp"
#include "scaling/study.hpp"
#include "scaling/tried.hpp"

namespace lockstep::utility {
namespace {

namespace fs = std::filesystem;

/// Loads the deck's data once, and rehearses each question once.
scaling::Rehearse rehearsal_of(const scaling::Options& options, int threads) {
  if (!options.program.empty()) {
    throw InputError(
        "--predict, --fit and --try-best run the model of the deck here, which is only known for "
        "decks of classify, regress and gpt: leave --program out");
  }
  const auto known =
      std::make_shared<train::Assignment>(read_known_deck(options.deck, options.overrides));
  using Question = std::tuple<std::vector<std::string>, int, std::int64_t>;
  const auto answers = std::make_shared<std::map<Question, scaling::GradientPlan>>();
  return [known, answers, options, threads](const scaling::Variant& variant, int ranks,
                                            std::int64_t samples) {
    const Question question{variant.settings, ranks, samples};
    const auto found = answers->find(question);
    if (found != answers->end()) return found->second;
    auto overrides = options.overrides;
    overrides.insert(overrides.end(), variant.settings.begin(), variant.settings.end());
    auto deck = Deck::load(options.deck, overrides);
    auto plan = train::read_run_plan(deck);
    plan.run.threads = threads;
    return answers->emplace(question, scaling::rehearse(*known->task, plan, ranks, samples))
        .first->second;
  };
}

scaling::Assignment read_assignment(const scaling::Options& options) {
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
      throw InputError(program + " is not a program that can be started");
    Deck deck = Deck::load(options.deck, options.overrides);
    plan = train::read_run_plan(deck);
    assignment.identity.deck_hash = hash_of_text(deck, options.deck, options.overrides);
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
  assignment.bucket_bytes = plan.ddp.buckets.bucket_bytes;
  assignment.accumulate = plan.train.accumulate;
  if (options.wants_prediction()) assignment.rehearse = rehearsal_of(options, identity.threads);
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
  const ExitCode code = scaling::run_study(options, read_assignment(options));
  if (!options.try_best || options.dry_run || !options.script.empty() || code != ExitCode::done)
    return code;
  const auto trial = scaling::best_trial(options);
  if (!trial) return code;
  train::write_stdout(fmt::format("trying: {}\n", trial->change));
  const ExitCode tried = scaling::run_study(trial->options, read_assignment(trial->options));
  if (tried == ExitCode::done) train::write_stdout(scaling::note_trial(options, *trial));
  return tried;
}

}  // namespace lockstep::utility
