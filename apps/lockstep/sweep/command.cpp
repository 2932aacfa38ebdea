#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/deck/did_you_mean.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task_options.hpp>

#include "bundled_program.hpp"
#include "commands.hpp"
#include "elastic/find_program.hpp"
#include "known_deck.hpp"
#include "sweep/sweep.hpp"

namespace lockstep::utility {
namespace {

using sweep::Assignment;
using sweep::Better;
using sweep::Settings;

/// The deck with some settings, read as its program reads it as far as that is known here.
struct ReadDeck {
  Deck deck;
  train::RunPlan plan;
  std::string hash;
};

ReadDeck read(const sweep::Options& options, const Settings& settings) {
  std::vector<std::string> overrides = options.overrides;
  for (const auto& [key, value] : settings) overrides.push_back(key + "=" + value);
  if (options.program.empty()) {
    Deck deck = check_known_deck(options.deck, overrides);
    train::RunPlan plan = train::read_run_plan(deck);
    std::string hash = deck.hash();
    return {std::move(deck), std::move(plan), std::move(hash)};
  }
  Deck deck = Deck::load(options.deck, overrides);
  train::RunPlan plan = train::read_run_plan(deck);
  std::string hash = hash_of_text(deck, options.deck, overrides);
  return {std::move(deck), std::move(plan), std::move(hash)};
}

/// Throws InputError: keys that the sweep itself sets, or that --set gives too.
void expect_free(const std::string& key, const sweep::Options& options) {
  for (const char* own : {"run.dir", "run.stop_after_epochs", "run.stop_after_steps"}) {
    if (key == own) throw InputError(fmt::format("{} cannot be varied: the sweep sets it", key));
  }
  if (key == "train.epochs" && !options.halving.empty())
    throw InputError("train.epochs cannot be varied with --halving, whose last rung it is");
  for (const std::string& set : options.overrides) {
    if (set.starts_with(key + "="))
      throw InputError(fmt::format("{} is varied, and --set gives it one value", key));
  }
}

std::vector<Settings> read_trials(const sweep::Options& options) {
  std::vector<sweep::Axis> grid;
  std::vector<sweep::Distribution> random;
  for (const std::string& text : options.grid) grid.push_back(sweep::parse_grid(text));
  for (const std::string& text : options.random) random.push_back(sweep::parse_random(text));
  for (const auto& axis : grid) expect_free(axis.key, options);
  for (const auto& one : random) expect_free(one.key, options);
  return sweep::all_settings(grid, random, options.draws, options.seed);
}

/// Names that summary.json may have, of a bundled program's run.
std::vector<std::string> known_metrics(TargetKind kind, std::int64_t top_k,
                                       const DataOptions& data) {
  std::vector<std::string> figures{"loss"};
  if (kind == TargetKind::classes) {
    figures.emplace_back("accuracy");
    if (top_k > 0) figures.push_back(fmt::format("top{}_accuracy", top_k));
  } else if (kind == TargetKind::values) {
    figures.insert(figures.end(), {"r2", "max_error", "mae", "relative_l2"});
  } else {
    figures.emplace_back("perplexity");
  }
  std::vector<std::string> names;
  for (const std::string& figure : figures) {
    if (data.validation_fraction > 0) names.push_back("validation_" + figure);
    if (data.test_set) names.push_back("test_" + figure);
  }
  names.emplace_back("train_loss");
  return names;
}

void choose_metric(Assignment& assignment, const sweep::Options& options, ReadDeck& base) {
  std::string& metric = assignment.metric;
  bool has_validation = false;
  if (options.program.empty()) {
    const DataOptions data = train::read_task_options(base.deck).data;
    has_validation = data.validation_fraction > 0;
    const std::string judged = has_validation ? "validation_" : data.test_set ? "test_" : "train_";
    const std::string& best = base.plan.checkpoint.best;
    metric = !options.metric.empty() ? options.metric : judged + (best.empty() ? "loss" : best);
    const auto known = known_metrics(target_kind(data), base.plan.eval.top_k, data);
    if (std::ranges::find(known, metric) == known.end()) {
      const std::vector<std::string_view> names(known.begin(), known.end());
      throw InputError(fmt::format("--metric {} is not a metric of these runs. {}", metric,
                                   did_you_mean(metric, names)));
    }
  } else {
    if (options.metric.empty()) {
      throw InputError(
          "--program needs --metric, a field of that program's summary.json, for example "
          "validation_loss");
    }
    metric = options.metric;
  }
  if (!options.halving.empty() && has_validation && metric.starts_with("test_")) {
    throw InputError(fmt::format(
        "--metric {} is measured at the end of a run alone, because the deck has a validation set: "
        "halving needs a figure of that set, such as validation_loss",
        metric));
  }
  const auto ends = [&](std::string_view end) { return metric.ends_with(end); };
  if (!options.mode.empty()) {
    assignment.better = options.mode == "max" ? Better::larger : Better::smaller;
  } else if (ends("accuracy") || ends("r2")) {
    assignment.better = Better::larger;
  } else if (ends("loss") || ends("error") || ends("mae") || ends("l2") || ends("perplexity")) {
    assignment.better = Better::smaller;
  } else {
    throw InputError(fmt::format("is a smaller {} better? Say --mode min or --mode max", metric));
  }
}

/// Reads every trial's deck, so that a wrong key or value is reported before anything starts. Of
/// those that resolve to the same deck the first is kept.
void keep_different(Assignment& assignment, const sweep::Options& options,
                    const std::vector<Settings>& trials) {
  std::set<std::string> known;
  for (const Settings& settings : trials) {
    try {
      if (known.insert(read(options, settings).hash).second) assignment.trials.push_back(settings);
    } catch (const InputError& error) {
      std::string_view why = error.what();
      constexpr std::string_view place = "--set: ";  // where the deck has them from
      if (why.starts_with(place)) why.remove_prefix(place.size());
      throw InputError(fmt::format("{}: {}", sweep::in_words(settings), why));
    }
  }
}

}  // namespace

ExitCode sweep(const sweep::Options& options) {
  Assignment assignment;
  if (!options.program.empty() && elastic::find_program(options.program).empty())
    throw InputError(options.program + " is not a program that can be started");
  ReadDeck base = read(options, {});
  const train::RunOptions& run = base.plan.run;
  if (run.stop_after_epochs > 0 || run.stop_after_steps > 0) {
    throw InputError(
        "run.stop_after_epochs and run.stop_after_steps are for the sweep itself: no trial would "
        "get to its end. Set train.epochs instead.");
  }
  assignment.deck_hash = base.hash;
  assignment.epochs = base.plan.train.epochs;
  assignment.threads = cores_a_rank(options.threads, base.plan);
  const std::vector<Settings> trials = read_trials(options);
  choose_metric(assignment, options, base);
  keep_different(assignment, options, trials);
  assignment.given = trials.size();
  assignment.program = options.program.empty()
                           ? bundled_program(train::read_task_options(base.deck).data)
                           : options.program;
  return run_sweep(options, std::move(assignment));
}

}  // namespace lockstep::utility
