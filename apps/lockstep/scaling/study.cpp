#include "study.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include <lockstep/io/atomic_file.hpp>
#include <lockstep/train/report/standard_output.hpp>

#include "elastic/find_program.hpp"
#include "elastic/launcher.hpp"
#include "elastic/leftovers.hpp"
#include "elastic/stop_signals.hpp"
#include "job_script.hpp"
#include "launch.hpp"
#include "measurement.hpp"
#include "model/prediction.hpp"
#include "plan.hpp"
#include "report.hpp"
#include "store.hpp"

namespace lockstep::scaling {
namespace fs = std::filesystem;
namespace {

std::atomic<bool> is_asked_to_stop{false};

void note_stop(int /*signal*/) { is_asked_to_stop = true; }

void say(const std::string& line) { train::write_stdout(line + "\n"); }

/// "4 ranks on 2 nodes".
std::string size_in_words(const Point& point) {
  const std::string nodes = point.nodes() > 1 ? fmt::format(" on {} nodes", point.nodes()) : "";
  return fmt::format("{} rank{}{}", point.ranks(), point.ranks() == 1 ? "" : "s", nodes);
}

std::string in_words(const Point& point) {
  return size_in_words(point) +
         (point.is_benchmark() ? ", benchmarks" : fmt::format(", repeat {}", point.repeat));
}

/// What a study that was killed has left running would measure with the new points, and write where
/// they do. Nothing of it is wanted any more.
void end_leftovers(const fs::path& folder) {
  constexpr double longest_death_s = 10;
  constexpr std::chrono::milliseconds between_looks{50};
  const auto begun = Clock::now();
  for (;;) {
    const std::vector<int> left = elastic::leftovers(folder);
    if (left.empty()) return;
    if (seconds_since(begun) > longest_death_s) {
      throw InputError(
          fmt::format("processes that a killed study in {} left behind do not die: {}; start again "
                      "when they have",
                      folder.string(), fmt::join(left, ", ")));
    }
    for (const int process : left) kill(process, SIGKILL);
    std::this_thread::sleep_for(between_looks);
  }
}

class StudyRun {
 public:
  StudyRun(const Options& options, Assignment assignment)
      : options_(options),
        assignment_(std::move(assignment)),
        hosts_(hosts_for(options, assignment_.identity.threads)),
        launcher_(options, assignment_.identity.threads),
        plan_(make_plan({.mode = options.mode,
                         .ranks = options.ranks,
                         .nodes = options.nodes,
                         .repeats = options.repeats,
                         .batch_size = assignment_.identity.batch_size,
                         .hosts = hosts_,
                         .oversubscribe = options.oversubscribe,
                         .benchmarks = options.benchmarks})) {}

  ExitCode print_commands() const {
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      const fs::path folder = fs::path(options_.output) / "runs" / plan_[i].name();
      const auto command =
          launcher_.command(plan_[i], static_cast<int>(i), app_of(plan_[i], folder));
      say(quoted(command.words));
    }
    return ExitCode::done;
  }

  ExitCode run() {
    elastic::on_stop_signals(note_stop);
    const Store store(options_.output, assignment_.identity);
    end_leftovers(store.folder());
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      if (is_done(store, plan_[i])) {
        store.remove_run_folder(plan_[i].name());  // a killed study may have left it
      } else {
        left.push_back(i);
      }
    }
    const std::size_t had = plan_.size() - left.size();
    if (had > 0) say(fmt::format("{} of {} points are done already", had, plan_.size()));
    for (const std::size_t i : left) {
      if (is_asked_to_stop) break;
      run_point(store, i);
    }
    return finish(store);
  }

 private:
  /// The command of a point without its launcher.
  [[nodiscard]] std::vector<std::string> app_of(const Point& point, const fs::path& folder) const {
    if (point.is_benchmark()) {
      // Of the study, so that it takes some ten seconds in all.
      constexpr double seconds = 10;
      return {elastic::this_program().string(),
              "bench",
              "--seconds",
              fmt::format("{:.1f}", seconds / static_cast<double>(options_.ranks.size())),
              "--output",
              (folder / "bench.json").string()};
    }
    auto words = assignment_.program;
    const auto settings =
        settings_of(point, options_, assignment_.identity.threads, folder.string());
    words.insert(words.end(), settings.begin(), settings.end());
    return words;
  }

  /// What the folder knows of a point. Nothing of one with another batch: there a study with other
  /// fewest ranks was.
  static std::optional<Json> known(const Store& store, const Point& point) {
    auto result = store.known(point.name());
    const bool same =
        result && (point.is_benchmark() ||
                   (result->value("batch_size", std::int64_t{0}) == point.batch_size &&
                    result->value("oversubscribed", false) == point.oversubscribed));
    return same ? std::move(result) : std::nullopt;
  }
  /// One that has failed is tried again.
  static bool is_done(const Store& store, const Point& point) {
    const auto result = known(store, point);
    return result && !result->contains("failed");
  }

  void run_point(const Store& store, std::size_t at) {
    const Point& point = plan_[at];
    const fs::path folder = store.new_run_folder(point.name());
    if (point.is_benchmark()) fs::create_directories(folder);
    StepLimit steps(folder, assignment_.identity.warmup, assignment_.identity.steps);
    auto alive = Clock::now();
    const int start = static_cast<int>(at) + 1;
    elastic::Launcher::Command command = launcher_.command(point, start, app_of(point, folder));
    const Environment mark = elastic::mark_of_this_supervisor(store.folder());
    command.environment.insert(command.environment.end(), mark.begin(), mark.end());
    const Ended ended = run_command(
        command, options_.limit, [] { return is_asked_to_stop.load(); },
        [&] {
          if (!point.is_benchmark()) steps.look();
          if (Clock::now() - alive < FolderLock::heartbeat) return;
          alive = Clock::now();
          store.show_life();
        });
    if (ended.code != 0) launcher_.end_elsewhere(start);
    if (ended.was_stopped) return store.remove_run_folder(point.name());

    const std::string head =
        fmt::format("point {}/{}: {}: ", at + 1, plan_.size(), in_words(point));
    const Json result = point.is_benchmark() ? read_benchmarks(point, folder, ended)
                                             : read_training(point, folder, ended);
    store.put(point.name(), result);
    if (result.contains("failed")) {
      say(head + "failed: " + result.at("failed").get<std::string>());
      return;
    }
    if (point.is_benchmark()) {
      const std::string lines = benchmark_lines(result);
      say(head + "\n  " + lines.substr(0, lines.size() - 1));
    } else {
      say(head + fmt::format("{:.2f} ms a step", result.at("step_ms").get<double>()));
    }
    store.remove_run_folder(point.name());
  }

  [[nodiscard]] Json read_training(const Point& point, const fs::path& folder,
                                   const Ended& ended) const {
    return read_run(result_of(point), folder, assignment_.identity, ended).json();
  }

  static Json read_benchmarks(const Point& point, const fs::path& folder, const Ended& ended) {
    const fs::path file = folder / "bench.json";
    std::error_code error;
    Json result{{"ranks", point.ranks()},
                {"nodes", point.nodes()},
                {"oversubscribed", point.oversubscribed}};
    if (ended.code == 0 && !ended.was_late && fs::exists(file, error)) {
      result.update(read_study_file(file));
    } else {
      result["failed"] = fmt::format("ended with exit code {}: {}", ended.code, ended.words);
    }
    return result;
  }

  [[nodiscard]] ExitCode finish(const Store& store) const {
    std::vector<Result> results;
    Json benchmarks = Json::array();
    std::size_t done = 0, failed = 0;
    for (const Point& point : plan_) {
      done += is_done(store, point) ? 1 : 0;
      const auto result = known(store, point);
      if (!result) continue;
      failed += result->contains("failed") ? 1 : 0;
      if (point.is_benchmark()) {
        benchmarks.push_back(*result);
      } else {
        results.push_back(Result::from(*result));
      }
    }
    const fs::path& folder = store.folder();
    const auto figures = analyse(results);
    if (!figures.empty()) train::write_stdout(table(options_.mode, figures));
    Json json = study_json(assignment_.identity, results, benchmarks);
    std::vector<Predicted> predicted;
    if (options_.wants_prediction() && !is_asked_to_stop && done > 0) {
      try {
        const Prediction prediction =
            predict(prediction_input(results, benchmarks),
                    usual_variants(assignment_.bucket_bytes, assignment_.identity.batch_size,
                                   assignment_.accumulate));
        train::write_stdout(table(prediction));
        json["prediction"] = prediction.json();
        predicted = prediction.sizes;
      } catch (const InputError& error) {
        say(fmt::format("nothing is predicted: {}", error.what()));
        json["prediction"] = {{"failed", error.what()}};
      }
    }
    write_atomically(folder / "scaling.json", text_of(json));
    say(fmt::format("{}, {}", (folder / "scaling.json").string(),
                    draw(options_.mode, figures, folder / "scaling.svg", predicted)));
    if (is_asked_to_stop) {
      say(fmt::format("stopped: {} of {} points are done; the same command goes on", done,
                      plan_.size()));
      return ExitCode::requeue;
    }
    if (failed == 0) return ExitCode::done;
    say(fmt::format("{} of {} points failed; the same command tries them again", failed,
                    plan_.size()));
    return ExitCode::failure;
  }

  [[nodiscard]] PredictionInput prediction_input(const std::vector<Result>& results,
                                                 const Json& benchmarks) const {
    int places = 1;
    for (const elastic::Host& host : hosts_) places = std::max(places, host.slots);
    return {.mode = options_.mode,
            .results = results,
            .benchmarks = benchmarks,
            .fit = options_.fit,
            .predict = options_.predict,
            .places = places,
            .ranks_a_node = options_.ranks_a_node,
            .network = options_.network,
            .accumulate = assignment_.accumulate,
            .rehearse = assignment_.rehearse};
  }

  Options options_;
  Assignment assignment_;
  elastic::Hosts hosts_;
  PointLauncher launcher_;
  std::vector<Point> plan_;
};

/// What the job must have, for hosts that nobody knows yet.
ExitCode print_script(const Options& options, int threads) {
  int most_nodes = 1, most_ranks = 1;  // on one node
  for (std::size_t i = 0; i < options.ranks.size(); ++i) {
    const int nodes = nodes_of(options.nodes, i);
    most_nodes = std::max(most_nodes, nodes);
    const int on = std::max(1, nodes);
    most_ranks = std::max(most_ranks, (options.ranks[i] + on - 1) / on);
  }
  train::write_stdout(job_script(options.script, options, most_nodes, most_ranks, threads));
  return ExitCode::done;
}

}  // namespace

ExitCode run_study(const Options& options, Assignment assignment) {
  const int threads = assignment.identity.threads;
  expect_one_or_each(options.ranks, options.nodes);
  if (!options.script.empty()) return print_script(options, threads);
  elastic::expect_no_launcher("lockstep scaling");
  StudyRun study(options, std::move(assignment));
  return options.dry_run ? study.print_commands() : study.run();
}

}  // namespace lockstep::scaling
