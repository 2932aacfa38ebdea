#include "run_record.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <sstream>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/deck/deck_source.hpp>
#include <lockstep/deck/key_text.hpp>
#include <lockstep/io/folder_lock.hpp>
#include <lockstep/train/run/elastic_report.hpp>

namespace lockstep::report {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t most_bytes = std::int64_t{16} << 20U;

std::string text_of(const fs::path& file) { return read_small_file_or_nothing(file, most_bytes); }

/// An object; empty, and a fault, if the file holds none.
Json object_in(const fs::path& file, std::vector<std::string>& faults) {
  std::error_code error;
  if (!fs::exists(file, error)) return Json::object();
  Json json = Json::parse(text_of(file), nullptr, false);
  if (json.is_object()) return json;
  faults.push_back(fmt::format("{} is damaged: it is not a JSON object.", file.string()));
  return Json::object();
}

template <class T>
T value_of(const Json& json, const char* key, T otherwise) {
  try {
    return json.value(key, otherwise);
  } catch (const Json::exception&) {  // of another type
    return otherwise;
  }
}

ElasticEvent event_of(const Json& line) {
  return {.kind = value_of(line, "kind", std::string()),
          .time = value_of(line, "time", std::string()),
          .text = value_of(line, "text", std::string()),
          .start = value_of(line, "start", 0),
          .ranks = value_of(line, "ranks", 0),
          .step = value_of(line, "step", std::int64_t{-1}),
          .lost_steps = value_of(line, "lost_steps", std::int64_t{0}),
          .seconds = value_of(line, "seconds", 0.0),
          .down_s = value_of(line, "down_s", 0.0),
          .why = value_of(line, "why", std::string())};
}

void read_elastic(RunRecord& run) {
  std::istringstream lines(text_of(run.folder / "elastic.jsonl"));
  int damaged = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object()) {
      run.elastic.push_back(event_of(json));
    } else if (!lines.eof()) {  // the last line may be being written
      ++damaged;
    }
  }
  if (damaged > 0)
    run.faults.push_back(fmt::format("{} lines of {} are damaged and were left out.", damaged,
                                     (run.folder / "elastic.jsonl").string()));
}

void read_deck(RunRecord& run) {
  run.deck = text_of(run.folder / "deck.toml");
  if (run.deck.empty()) return;
  try {
    const auto tree = detail::load_deck_text(run.deck, (run.folder / "deck.toml").string());
    for (const auto& [table, keys] : tree.tables) {
      for (const auto& [key, value] : keys.keys)
        run.deck_keys.emplace_back(detail::join_path(table, key), detail::to_toml(value));
    }
  } catch (const Error& error) {
    run.faults.push_back(fmt::format("The deck cannot be read: {}", error.what()));
  }
}

void read_checkpoints(RunRecord& run) {
  fs::path folder = run.folder / "checkpoints";
  const auto told = value_of(run.program, "checkpoints", std::string());
  if (!told.empty()) folder = told;
  try {
    for (const fs::path& file : list_checkpoints(folder)) {
      struct stat info {};
      if (::stat(file.c_str(), &info) != 0) continue;  // removed meanwhile
      const auto moment = std::chrono::system_clock::from_time_t(info.st_mtim.tv_sec);
      run.checkpoints.push_back({.file = file.filename().string(),
                                 .step = step_of(file).value_or(0),
                                 .bytes = static_cast<std::uintmax_t>(info.st_size),
                                 .age_s = std::time(nullptr) - info.st_mtim.tv_sec,
                                 .time = utc_text("%Y-%m-%d %H:%M:%S", moment)});
    }
  } catch (const std::exception&) {
    run.faults.push_back(fmt::format("{} cannot be read.", folder.string()));
  }
}

/// "a, b": folders in it that hold runs.
std::string runs_in(const fs::path& folder) {
  std::vector<std::string> names;
  const auto take = [&](const fs::directory_entry& entry) {
    if (holds_a_run(entry.path())) names.push_back(entry.path().filename().string());
  };
  std::error_code ignored;
  for_each_entry(folder, take, ignored);
  std::ranges::sort(names);
  constexpr std::size_t most = 8;
  const bool more = names.size() > most;
  if (more) names.resize(most);
  return fmt::format("{}{}", fmt::join(names, ", "), more ? ", ..." : "");
}

bool says(const Json& json, const char* key) { return value_of(json, key, false); }

}  // namespace

int RunRecord::starts() const noexcept {
  return std::max<int>(1,
                       static_cast<int>(std::ranges::count(elastic, "start", &ElasticEvent::kind)));
}

bool holds_a_run(const fs::path& folder) {
  std::error_code error;
  return std::ranges::any_of(
      std::array{"metrics.jsonl", "deck.toml", "elastic.jsonl", train::ElasticReport::file_name},
      [&](const char* name) { return fs::is_regular_file(folder / name, error); });
}

RunRecord read_run(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) throw InputError(folder.string() + " does not exist");
  if (!fs::is_directory(folder, error))
    throw InputError(folder.string() + " is a file; name the folder of a run");
  if (!holds_a_run(folder)) {
    const std::string inside = runs_in(folder);
    throw InputError(fmt::format("{} holds no run{}", folder.string(),
                                 inside.empty() ? ": neither metrics.jsonl nor deck.toml is in it"
                                                : "; name those in it: " + inside));
  }
  RunRecord run{.folder = folder};
  fs::path clean = fs::absolute(folder).lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  run.name = clean.filename().string();
  // Before the rest: a run writes its summary first, and leaves the folder then.
  run.owner = FolderLock::owner_of(folder).value_or("");
  read_elastic(run);
  run.summary = object_in(folder / "summary.json", run.faults);
  run.program = object_in(folder / train::ElasticReport::file_name, run.faults);
  read_deck(run);
  read_checkpoints(run);
  return run;
}

RunState state_of(const RunRecord& run, std::int64_t last_step) {
  if (!run.owner.empty()) return RunState::going_on;
  if (!run.elastic.empty() && run.elastic.back().kind != "over") return RunState::between_starts;
  const Json& said = run.summary.empty() ? run.program : run.summary;
  const bool is_old = value_of(said, "steps", last_step) < last_step;
  if (!is_old && says(said, "completed")) return RunState::completed;
  if (!is_old && says(said, "stopped_early")) return RunState::stopped;
  return RunState::over;
}

std::string state_in_words(const RunRecord& run, std::int64_t last_step) {
  switch (state_of(run, last_step)) {
    case RunState::going_on:
      return fmt::format("going on: {}", run.owner);
    case RunState::between_starts:
      return fmt::format(
          "between two starts of lockstep elastic, which last said: {}",
          run.elastic.back().text.empty() ? run.elastic.back().kind : run.elastic.back().text);
    case RunState::completed:
      return "completed";
    case RunState::stopped: {
      const Json& said = run.summary.empty() ? run.program : run.summary;
      const auto by = value_of(said, "stopped_by", std::string());
      return by.empty() ? "stopped on request" : "stopped by " + by;
    }
    case RunState::over:
      break;
  }
  if (!run.elastic.empty() && !run.elastic.back().text.empty()) return run.elastic.back().text;
  if (!run.summary.empty()) return "ended, but neither completed nor stopped: log.txt may tell why";
  return "ended without a summary: it failed or was killed; log.txt may tell why";
}

}  // namespace lockstep::report
