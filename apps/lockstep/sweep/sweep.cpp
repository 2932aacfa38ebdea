#include "sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <lockstep/base/cores.hpp>
#include <lockstep/base/helper_program.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/deck/key_text.hpp>
#include <lockstep/train/report/standard_output.hpp>

#include "elastic/find_program.hpp"
#include "elastic/launcher.hpp"
#include "elastic/leftovers.hpp"
#include "elastic/stop_signals.hpp"
#include "folder.hpp"
#include "job_script.hpp"
#include "keeper.hpp"
#include "scaling/launch.hpp"
#include "shares.hpp"
#include "table.hpp"

namespace lockstep::sweep {
namespace fs = std::filesystem;
namespace {

std::atomic<bool> is_asked_to_stop{false};

void note_stop(int /*signal*/) { is_asked_to_stop = true; }

void say(const std::string& line) { train::write_stdout(line + "\n"); }

/// Options that choose hosts and launcher, as those of `lockstep scaling`.
scaling::Options launch_options(const Options& options) {
  scaling::Options launch;
  launch.members = options.members;
  launch.launcher = options.launcher;
  return launch;
}

Division division_of(const Options& options, int threads) {
  Division division{.hosts = scaling::hosts_for(launch_options(options), threads),
                    .ranks = options.ranks,
                    .parallel = options.only >= 0 ? 1 : options.parallel,
                    .oversubscribe = options.oversubscribe,
                    .threads = threads,
                    .cores = {}};
  if (options.members.empty() && environment("SLURM_JOB_ID").empty())
    division.cores = allowed_cores();
  return division;
}

/// The trial that runs in a share, if any.
struct Place {
  Share share;
  std::size_t trial = 0;
  std::unique_ptr<FolderLock> lock;
  std::unique_ptr<Keeper> keeper;
};

class SweepRun {
 public:
  SweepRun(const Options& options, Assignment assignment)
      : options_(options),
        assignment_(std::move(assignment)),
        launcher_(launch_options(options), assignment_.threads) {
    if (!options.halving.empty()) halving_ = parse_halving(options.halving, options.eta);
    const bool by_epochs = halving_.unit == Halving::Unit::epochs;
    rungs_ = options.halving.empty()
                 ? std::vector<Rung>{{assignment_.trials.size(), 0}}
                 : rungs(assignment_.trials.size(), halving_, by_epochs ? assignment_.epochs : 0);
    for (const Settings& settings : assignment_.trials) {
      trials_.emplace_back();
      trials_.back().index = static_cast<int>(trials_.size()) - 1;
      trials_.back().settings = settings;
    }
    for (Share& share : divide(division_of(options, assignment_.threads))) {
      places_.emplace_back();
      places_.back().share = std::move(share);
    }
  }

  ExitCode print_commands() const {
    for (const Trial& trial : trials_) {
      const auto command =
          command_of(places_.front().share, 1, app_of(trial, options_.output, rungs_.front()));
      say(scaling::quoted(command.words));
    }
    return ExitCode::done;
  }

  ExitCode run() {
    elastic::on_stop_signals(note_stop);
    folder_.emplace(options_.output, identity(), options_.only >= 0);
    read_records();
    for (rung_ = 0; rung_ < rungs_.size() && !is_asked_to_stop; ++rung_) run_rung(in_rung(rung_));
    return options_.only >= 0 ? end_of_one() : finish();
  }

 private:
  [[nodiscard]] Json identity() const {
    Json settings = Json::array();
    for (const Settings& one : assignment_.trials) {
      settings.push_back(Json::object());
      for (const auto& [key, value] : one) settings.back()[key] = value;
    }
    return {
        {"deck", options_.deck},
        {"deck_hash", assignment_.deck_hash},
        {"program", fs::path(assignment_.program).filename().string()},
        {"metric", assignment_.metric},
        {"mode", assignment_.better == Better::smaller ? "min" : "max"},
        {"halving",
         options_.halving.empty() ? "" : fmt::format("{} eta {}", options_.halving, options_.eta)},
        {"settings", settings}};
  }

  void read_records() {
    std::vector<fs::path> unfinished;
    std::size_t had = 0;
    for (Trial& trial : trials_) {
      if (options_.only >= 0 && trial.index != options_.only) continue;
      folder_->read(trial);
      const bool has = trial.whole || (!trial.failed.empty() && !trial.tried_again);
      had += has ? 1 : 0;
      if (!has) unfinished.push_back(folder_->records(trial));
    }
    if (had > 0) say(fmt::format("{} of {} trials are done already", had, trials_.size()));
    end_leftovers(unfinished);
  }

  /// The trials of a rung: all, or the best of the rung before.
  [[nodiscard]] std::vector<std::size_t> in_rung(std::size_t rung) const {
    std::vector<std::optional<double>> metrics;
    for (const Trial& trial : trials_) {
      if (rung == 0) {
        const bool is_wanted = options_.only < 0 || trial.index == options_.only;
        metrics.push_back(is_wanted ? std::optional(0.0) : std::nullopt);
      } else {
        const bool has = trial.rungs.size() >= rung;
        metrics.push_back(has ? std::optional(trial.rungs[rung - 1]) : std::nullopt);
      }
    }
    return best(metrics, assignment_.better, rungs_[rung].trials);
  }

  /// Whether the trial has nothing left to do in this rung.
  bool is_done(Trial& trial) {
    if (trial.rungs.size() > rung_ || (!trial.failed.empty() && !trial.tried_again)) return true;
    if (trial.whole) {  // it was trained to its end before the last rung
      trial.rungs.push_back(trial.rungs.back());
      folder_->write(trial);
      return true;
    }
    // Of a sweep that was killed before it had noted this.
    const auto seen = look_at(folder_->run_folder(trial), assignment_.metric);
    if (!seen || !seen->has_reached(rungs_[rung_], halving_.unit)) return false;
    settle(trial, {});
    return true;
  }

  void run_rung(const std::vector<std::size_t>& trials) {
    constexpr std::chrono::milliseconds look_each{50};
    std::deque<std::size_t> open;
    for (const std::size_t trial : trials) {
      if (!is_done(trials_[trial])) open.push_back(trial);
    }
    if (rungs_.size() > 1 && !open.empty()) {
      const std::int64_t budget = rungs_[rung_].budget;
      say(fmt::format("rung {}/{}: {} trial{}, {}", rung_ + 1, rungs_.size(), trials.size(),
                      trials.size() == 1 ? "" : "s",
                      budget == 0 ? "the whole training"
                                  : fmt::format("to {} {}", budget, halving_.unit_in_words())));
    }
    bool was_told = false;
    for (;;) {
      // Read once a round: it may turn true behind the places that were told already.
      const bool must_stop = is_asked_to_stop;
      for (Place& place : places_) {
        if (!place.keeper && !open.empty() && !must_stop) {
          place.trial = open.front();
          open.pop_front();
          start(place);
        }
      }
      bool is_running = false;
      for (Place& place : places_) {
        if (!place.keeper) continue;
        if (must_stop && !was_told) place.keeper->stop();
        if (const auto ended = place.keeper->ended()) {
          place.keeper.reset();
          settle(trials_[place.trial], *ended);
          place.lock.reset();
        } else {
          is_running = true;
        }
      }
      was_told = must_stop;
      if (!is_running && (open.empty() || must_stop)) return;
      show_life();
      std::this_thread::sleep_for(look_each);
    }
  }

  void show_life() {
    if (Clock::now() - alive_ < FolderLock::heartbeat) return;
    alive_ = Clock::now();
    folder_->show_life();
    for (const Place& place : places_) {
      if (place.lock) place.lock->refresh();
    }
  }

  void start(Place& place) {
    Trial& trial = trials_[place.trial];
    const fs::path records = folder_->records(trial);
    try {
      place.lock = std::make_unique<FolderLock>(records, folder_kind);
    } catch (const InputError& error) {
      if (options_.only >= 0) throw;
      trial.stopped = error.what();
      return say(fmt::format("trial {}: {}", trial.index, trial.stopped));
    }
    const auto app = app_of(trial, folder_->path(), rungs_[rung_]);
    place.keeper = std::make_unique<Keeper>(Keeper::Start{
        .command =
            [this, app, records, share = place.share](int start) {
              auto command = command_of(share, start, app);
              const Environment mark = elastic::mark_of_this_supervisor(records);
              command.environment.insert(command.environment.end(), mark.begin(), mark.end());
              return command;
            },
        .end_elsewhere = [this](int start) { launcher_.end_elsewhere(start); },
        .cores = place.share.cores,
        .run_folder = folder_->run_folder(trial),
        .output = records / "output.txt",
        .program = fs::path(assignment_.program).filename().string(),
        .deck = options_.deck});
  }

  [[nodiscard]] elastic::Launcher::Command command_of(const Share& share, int start,
                                                      const std::vector<std::string>& app) const {
    // Cores come from the share: mpiexec would bind the ranks of every trial to the same first
    // ones.
    scaling::Point point{.placement = share.placement, .repeat = 1};
    point.oversubscribed = true;
    auto command = launcher_.command(point, start, app);
    // With --overlap srun gives all steps the same first cores of a node.
    std::ranges::replace(command.words, "--overlap", "--exact");
    return command;
  }

  /// The command of a trial without its launcher.
  [[nodiscard]] std::vector<std::string> app_of(const Trial& trial, const fs::path& folder,
                                                const Rung& rung) const {
    std::vector<std::string> words{assignment_.program, options_.deck};
    const auto set = [&](const std::string& assignment) {
      words.insert(words.end(), {"--set", assignment});
    };
    for (const std::string& own : options_.overrides) set(own);
    for (const auto& [key, value] : trial.settings) set(key + "=" + value);
    set("run.dir=" + detail::to_toml((folder / trial.name()).string()));
    set(fmt::format("run.threads={}", assignment_.threads));
    if (rung.budget > 0)
      set(fmt::format("run.stop_after_{}={}", halving_.unit_in_words(), rung.budget));
    words.emplace_back("--resume");
    return words;
  }

  /// Notes the end of a start.
  void settle(Trial& trial, const Ended& ended) {
    const auto seen = look_at(folder_->run_folder(trial), assignment_.metric);
    enter(trial, seen, ended, rungs_[rung_], halving_.unit, assignment_.metric, options_.ranks);
    if (seen) trial.seconds += seen->seconds;
    folder_->write(trial);
    if (options_.only < 0) folder_->write_sweep(results());
    const std::string head =
        fmt::format("trial {}/{}: {}: ", trial.index, trials_.size(), in_words(trial.settings));
    if (!trial.failed.empty()) {
      say(head + "failed: " + trial.failed);
    } else if (!trial.stopped.empty()) {
      say(fmt::format("{}stopped ({}) after {} steps", head, trial.stopped, trial.steps));
      // The job's time limit, or a signal that a batch system sends to all its processes.
      if (trial.stopped != "run.max_minutes" && trial.stopped != "file stop")
        is_asked_to_stop = true;
    } else {
      say(fmt::format("{}{} {:.6g}", head, assignment_.metric, trial.rungs.back()));
    }
  }

  [[nodiscard]] Json results() const {
    Json rows = Json::array();
    for (const std::size_t at : ranking(trials_, assignment_.better)) {
      const Trial& trial = trials_[at];
      Json row{{"trial", trial.index}, {"settings", Json::object()}, {"run", trial.name()}};
      for (const auto& [key, value] : trial.settings) row["settings"][key] = value;
      row[assignment_.metric] = trial.metric() ? Json(*trial.metric()) : Json(nullptr);
      row.update(trial.json());
      rows.push_back(std::move(row));
    }
    return {{"trials", rows}};
  }

  /// Of one trial of an array job.
  [[nodiscard]] ExitCode end_of_one() const {
    const Trial& trial = trials_[static_cast<std::size_t>(options_.only)];
    if (trial.whole) return ExitCode::done;
    return trial.failed.empty() ? ExitCode::requeue : ExitCode::failure;
  }

  [[nodiscard]] ExitCode finish() const {
    Json json = results();
    std::size_t failed = 0, again = 0, stopped = 0;
    for (const Trial& trial : trials_) {
      failed += trial.failed.empty() ? 0 : 1;
      again += trial.tried_again ? 1 : 0;
      stopped += trial.stopped.empty() ? 0 : 1;
    }
    train::write_stdout(table(trials_, assignment_.metric, assignment_.better, rungs_.size()));
    const Trial& first = trials_[ranking(trials_, assignment_.better).front()];
    const bool has_best = first.metric().has_value();
    if (has_best) {
      const auto checkpoint = newest_good_checkpoint(folder_->run_folder(first) / "checkpoints");
      json["best"] = {{"trial", first.index},
                      {assignment_.metric, *first.metric()},
                      {"checkpoint", checkpoint ? Json(checkpoint->string()) : Json(nullptr)}};
      say(fmt::format("best: trial {} with {} {:.6g}: {}", first.index, assignment_.metric,
                      *first.metric(),
                      checkpoint ? checkpoint->string() : "no checkpoint (see [checkpoint])"));
    }
    folder_->write_sweep(json);
    say((folder_->path() / "sweep.json").string());
    say_report();
    if (is_asked_to_stop || stopped > 0) {
      say("stopped: the same command goes on");
      return ExitCode::requeue;
    }
    if (failed > 0) {
      say(fmt::format("{} of {} trials failed{}", failed, trials_.size(),
                      again > 0 ? fmt::format("; the same command tries {} of them again", again)
                                : std::string()));
    }
    return again == 0 && has_best ? ExitCode::done : ExitCode::failure;
  }

  /// The page of all trials, if one has begun and this lockstep makes pages.
  void say_report() const {
    const auto has_begun = [&](const Trial& trial) {
      return fs::exists(folder_->run_folder(trial));
    };
    if (std::ranges::none_of(trials_, has_begun)) return;
    constexpr double limit_s = 5;
    const HelperEnd end = run_helper({elastic::this_program().string(), "--help"}, limit_s);
    if (end.output.find("\n  report ") == std::string::npos) return;
    say(fmt::format("a page of all: lockstep report {0}/trial-* -o {0}/report.html",
                    folder_->path().string()));
  }

  Options options_;
  Assignment assignment_;
  scaling::PointLauncher launcher_;
  Halving halving_;
  std::vector<Rung> rungs_;
  std::vector<Trial> trials_;
  std::vector<Place> places_;
  std::optional<Folder> folder_;
  std::size_t rung_ = 0;
  Clock::time_point alive_ = Clock::now();
};

}  // namespace

ExitCode run_sweep(const Options& options, Assignment assignment) {
  const std::size_t trials = assignment.trials.size();
  if (options.only >= 0) {
    if (!options.halving.empty())
      throw InputError("--only runs one trial, and --halving compares them: leave one out");
    if (static_cast<std::size_t>(options.only) >= trials)
      throw InputError(fmt::format("--only {}: the last trial is {}", options.only, trials - 1));
  }
  if (!options.halving.empty()) {
    const Halving halving = parse_halving(options.halving, options.eta);
    const bool by_epochs = halving.unit == Halving::Unit::epochs;
    if (by_epochs && halving.first >= assignment.epochs) {
      throw InputError(fmt::format(
          "--halving {}: the whole training has {} epochs; the first rung must have fewer",
          options.halving, assignment.epochs));
    }
  }
  if (!options.script.empty()) {
    train::write_stdout(job_script(options, trials, assignment.threads));
    return ExitCode::done;
  }
  elastic::expect_no_launcher("lockstep sweep");
  const std::size_t given = assignment.given;
  SweepRun sweep(options, std::move(assignment));
  if (options.dry_run) return sweep.print_commands();
  if (options.only < 0) {
    say(given > trials
            ? fmt::format("{} trials; {} are the same as another", trials, given - trials)
            : fmt::format("{} trials", trials));
  }
  return sweep.run();
}

}  // namespace lockstep::sweep
