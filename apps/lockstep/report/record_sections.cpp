#include "record_sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include <lockstep/io/folder.hpp>

namespace lockstep::report {
namespace {

using Records = std::vector<const RunRecord*>;

/// Text as it is, a number in six digits, a list's parts.
std::string words_of(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  if (!value.is_array()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string all;
  for (const Json& part : value) all += (all.empty() ? "" : ", ") + words_of(part);
  return all;
}

std::vector<double> memory_of(const RunRecord& run) {
  std::vector<double> mib;
  const auto there = run.summary.find("peak_rss_mib");
  if (there == run.summary.end() || !there->is_array()) return mib;
  for (const Json& value : *there) mib.push_back(value.is_number() ? value.get<double>() : 0);
  return mib;
}

void add_memory(Page& page, const Records& runs) {
  Section section{.title = "Memory"};
  Chart chart{.title = "largest resident memory", .x = "rank", .y = "MiB", .from_zero = true};
  Table table{.head = {"MiB a rank", "ranks", "least", "mean", "most"}, .rows = {}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::vector<double> mib = memory_of(*runs[i]);
    if (mib.empty()) continue;
    Series series{.label = runs[i]->name, .colour = i, .style = Style::dots, .curve = {}};
    double sum = 0;
    for (std::size_t rank = 0; rank < mib.size(); ++rank) {
      series.curve.add(static_cast<double>(rank), mib[rank]);
      sum += mib[rank];
    }
    chart.series.push_back(std::move(series));
    table.rows.push_back({{runs[i]->name, std::to_string(mib.size()),
                           fmt::format("{:.0f}", *std::ranges::min_element(mib)),
                           fmt::format("{:.0f}", sum / static_cast<double>(mib.size())),
                           fmt::format("{:.0f}", *std::ranges::max_element(mib))}});
  }
  if (table.rows.empty()) return;
  section.charts.push_back(std::move(chart));
  section.tables.push_back(std::move(table));
  page.sections.push_back(std::move(section));
}

Table::Row row_of(const ElasticEvent& event) {
  std::string what = event.text;
  if (event.kind == "start") {
    what = fmt::format("start {} on {} ranks from step {}", event.start, event.ranks,
                       std::max<std::int64_t>(0, event.step));
    if (event.lost_steps > 0) what += fmt::format(", {} steps again", event.lost_steps);
    if (event.start > 1) what += fmt::format(", {:.1f} s after the end before it", event.down_s);
  }
  if (event.kind == "end")
    what = fmt::format("start {} ended after {:.1f} s: {}", event.start, event.seconds, event.text);
  // An end without a request.
  const bool is_failure = event.kind == "end" && event.why != "completed" &&
                          event.why != "stopped" && event.why != "members";
  return {{event.time, event.kind, event.step < 0 ? "" : std::to_string(event.step), what},
          is_failure};
}

void add_checkpoints(Page& page, const Records& runs) {
  Section section{.title = "Checkpoints and restarts"};
  constexpr std::size_t most = 20;
  for (const RunRecord* run : runs) {
    const std::string of = runs.size() == 1 ? "" : " of " + run->name;
    if (!run->elastic.empty()) {
      Table table{.head = {"time", "kind", "step", "event" + of}, .rows = {}};
      for (const ElasticEvent& event : run->elastic) table.rows.push_back(row_of(event));
      section.tables.push_back(std::move(table));
    }
    if (run->checkpoints.empty()) {
      section.text.push_back(fmt::format("No checkpoint{} is there.", of));
      continue;
    }
    Table table{.head = {"checkpoint" + of, "step", "size", "written (UTC)"}, .rows = {}};
    for (const SavedCheckpoint& one : run->checkpoints) {
      if (table.rows.size() == most) {
        table.rows.push_back(
            {{fmt::format("and {} older ones", run->checkpoints.size() - most), "", "", ""}});
        break;
      }
      table.rows.push_back({{one.file, std::to_string(one.step),
                             format_bytes(static_cast<std::int64_t>(one.bytes)), one.time}});
    }
    section.tables.push_back(std::move(table));
  }
  page.sections.push_back(std::move(section));
}

/// A line a key, a column a run; lines in which runs differ are marked. Empty text: not known.
using Values = std::map<std::string, std::vector<std::string>>;
bool differ(const std::vector<std::string>& values) {
  return std::ranges::any_of(values, [&](const auto& value) { return value != values.front(); });
}
Table table_of(const char* what, const Records& runs, const Values& values, bool only_differing) {
  Table table{.head = {what}, .rows = {}};
  for (const RunRecord* run : runs) table.head.push_back(run->name);
  for (const auto& [key, of_runs] : values) {
    const bool differs = differ(of_runs);
    if (only_differing && !differs) continue;
    Table::Row row{{key}, differs && !only_differing};
    row.cells.insert(row.cells.end(), of_runs.begin(), of_runs.end());
    table.rows.push_back(std::move(row));
  }
  return table;
}

void add_decks(Page& page, const Records& runs) {
  Section section{.title = runs.size() == 1 ? "Deck" : "Decks"};
  Values keys;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const auto& [key, value] : runs[i]->deck_keys) {
      keys[key].resize(runs.size());
      keys[key][i] = value;
    }
  }
  if (runs.size() > 1) {
    keys.erase("run.dir");  // differs always
    Table differences = table_of("keys that differ", runs, keys, true);
    if (differences.rows.empty()) {
      section.text.emplace_back("The decks are the same, but for run.dir.");
    } else {
      section.tables.push_back(std::move(differences));
    }
  }
  for (const RunRecord* run : runs) {
    if (!run->deck.empty()) section.details.push_back({run->name + "/deck.toml", run->deck});
  }
  if (!section.details.empty()) page.sections.push_back(std::move(section));
}

void add_versions(Page& page, const Records& runs) {
  constexpr std::array names{"app",   "version", "git_commit",  "deck_hash", "seed",
                             "ranks", "threads", "backend",     "hosts",     "compiler",
                             "flags", "arch",    "cpu_features"};
  Values values;
  const auto put = [&](const std::string& name, std::size_t run, const Json& value) {
    values[name].resize(runs.size());
    values[name][run] = words_of(value);
  };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Json& summary = runs[i]->summary;
    for (const char* name : names) {
      if (summary.contains(name)) put(name, i, summary.at(name));
    }
    const auto libraries = summary.find("libraries");
    if (libraries == summary.end() || !libraries->is_object()) continue;
    for (const auto& [name, version] : libraries->items()) put(name, i, version);
  }
  if (values.empty()) return;
  page.sections.push_back({.title = "Versions",
                           .text = {},
                           .charts = {},
                           .tables = {table_of("", runs, values, false)},
                           .details = {}});
}

}  // namespace

std::string figure_of(const RunRecord& run, const std::string& key) {
  const auto there = run.summary.find(key);
  return there == run.summary.end() ? "" : words_of(*there);
}

void add_records(Page& page, const Records& runs) {
  add_memory(page, runs);
  add_checkpoints(page, runs);
  add_decks(page, runs);
  add_versions(page, runs);
}

}  // namespace lockstep::report
