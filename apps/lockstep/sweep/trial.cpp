#include "trial.hpp"

#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <string_view>

#include <lockstep/base/error.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/base/some_of.hpp>

namespace lockstep::sweep {
namespace {

constexpr std::int64_t longest_summary = std::int64_t{1} << 24U;

std::string reason_of(const Ended& ended) {
  if (ended.out_of_memory) return "out of memory, as Slurm reports";
  if (!ended.sentence.empty()) return ended.sentence;
  if (ended.signal != 0) {
    return fmt::format("a rank was ended by signal {} ({}){}", ended.signal,
                       strsignal(ended.signal),
                       ended.signal == SIGKILL ? ", perhaps out of memory" : "");
  }
  return fmt::format("ended with exit code {}{}{}", ended.code, ended.words.empty() ? "" : ": ",
                     ended.words);
}

/// Its own sentence about its deck, its data or its numbers: the same would come again.
bool is_final(const Ended& ended) {
  const bool own = ended.code == static_cast<int>(ExitCode::failure) ||
                   ended.code == static_cast<int>(ExitCode::bad_input);
  return own && !ended.sentence.empty() && !ended.out_of_memory;
}

}  // namespace

std::string Trial::name() const { return fmt::format("trial-{:04}", index); }

Json Trial::json() const {
  return {
      {"rungs", rungs},     {"whole", whole},   {"failed", failed}, {"tried_again", tried_again},
      {"stopped", stopped}, {"epochs", epochs}, {"steps", steps},   {"seconds", seconds}};
}

void Trial::take(const Json& json) {
  json.at("rungs").get_to(rungs);
  json.at("whole").get_to(whole);
  json.at("failed").get_to(failed);
  json.at("tried_again").get_to(tried_again);
  json.at("stopped").get_to(stopped);
  json.at("epochs").get_to(epochs);
  json.at("steps").get_to(steps);
  json.at("seconds").get_to(seconds);
}

bool Seen::has_reached(const Rung& rung, Halving::Unit unit) const noexcept {
  if (completed) return true;
  if (rung.budget == 0) return false;
  // Stopped by a signal at the very step of the budget, it has not evaluated.
  return stopped_by.starts_with("run.stop_after_") &&
         (unit == Halving::Unit::epochs ? epochs : steps) >= rung.budget;
}

std::optional<Seen> look_at(const std::filesystem::path& run_folder, const std::string& metric) {
  const std::string text = read_small_file_or_nothing(run_folder / "summary.json", longest_summary);
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  try {
    Seen seen{.completed = json.at("completed").get<bool>(),
              .epochs = json.at("epochs").get<std::int64_t>(),
              .steps = json.at("steps").get<std::int64_t>(),
              .ranks = json.at("ranks").get<int>()};
    if (json.at("wall_s").is_number()) seen.seconds = json.at("wall_s").get<double>();
    if (json.at("stopped_by").is_string()) seen.stopped_by = json.at("stopped_by");
    seen.has_metric = json.contains(metric);
    if (seen.has_metric && json.at(metric).is_number()) {
      const auto value = json.at(metric).get<double>();
      if (std::isfinite(value)) seen.metric = value;
    }
    for (const auto& [name, value] : json.items()) {
      const bool is_figure = name.starts_with("train_") || name.starts_with("validation_") ||
                             name.starts_with("test_");
      if (is_figure && value.is_number()) seen.figures.push_back(name);
    }
    return seen;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void enter(Trial& trial, const std::optional<Seen>& seen, const Ended& ended, const Rung& rung,
           Halving::Unit unit, const std::string& metric, int ranks) {
  const auto fail = [&](std::string reason, bool tried_again) {
    trial.failed = std::move(reason);
    trial.tried_again = tried_again;
  };
  trial.failed.clear();
  trial.stopped.clear();
  trial.tried_again = false;
  if (seen && (seen->epochs > 0 || seen->steps > 0)) {
    trial.epochs = seen->epochs;
    trial.steps = seen->steps;
  }
  if (seen && seen->has_reached(rung, unit)) {
    if (seen->ranks != ranks) {
      return fail(fmt::format("the program ran on {} rank{}: its MPI is not the launcher's",
                              seen->ranks, seen->ranks == 1 ? "" : "s"),
                  true);
    }
    const std::string there = seen->figures.empty() ? "" : "; it has " + some_of(seen->figures);
    if (!seen->has_metric)
      return fail(fmt::format("its summary.json has no {}{}", metric, there), false);
    if (!seen->metric) {
      return fail(
          fmt::format("{} of summary.json is null: not measured, or not finite{}", metric, there),
          false);
    }
    trial.rungs.push_back(*seen->metric);
    trial.whole = seen->completed;
    return;
  }
  if (ended.was_stopped) {
    trial.stopped = "with the sweep";
  } else if (ended.code == static_cast<int>(ExitCode::requeue) ||
             (ended.code == 0 && seen && !seen->stopped_by.empty())) {
    trial.stopped = seen && !seen->stopped_by.empty() ? seen->stopped_by : "on request";
  } else {
    fail(reason_of(ended), !is_final(ended));
  }
}

}  // namespace lockstep::sweep
