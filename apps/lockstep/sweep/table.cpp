#include "table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::sweep {
namespace {

std::string state_in_words(const Trial& trial) {
  if (!trial.failed.empty()) return "failed: " + trial.failed;
  if (!trial.stopped.empty()) return "stopped: " + trial.stopped;
  return trial.rungs.empty() ? "not run" : "";
}

using Row = std::vector<std::string>;

std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    // The last column is as long as it is.
    for (std::size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      line += fmt::format("{}{:>{}}", i == 0 ? "" : "  ", row[i], widths[i]);
    if (!row.back().empty()) line += "  " + row.back();
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::vector<std::size_t> ranking(const std::vector<Trial>& trials, Better better) {
  std::vector<std::size_t> order(trials.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const auto first = trials[a].metric(), second = trials[b].metric();
    if (first.has_value() != second.has_value()) return first.has_value();
    if (!first) return false;
    if (trials[a].rungs.size() != trials[b].rungs.size())
      return trials[a].rungs.size() > trials[b].rungs.size();
    return better == Better::smaller ? *first < *second : *first > *second;
  });
  return order;
}

std::string table(const std::vector<Trial>& trials, const std::string& metric, Better better,
                  std::size_t rungs) {
  Row head{"", "trial"};
  for (const auto& [key, value] : trials.front().settings) head.push_back(key);
  head.push_back(metric);
  if (rungs > 1) head.emplace_back("rung");
  head.insert(head.end(), {"epochs", "steps", "seconds", ""});
  std::vector<Row> rows{head};
  int place = 0;
  for (const std::size_t at : ranking(trials, better)) {
    const Trial& trial = trials[at];
    const auto value = trial.metric();
    Row row{value ? std::to_string(++place) : "-", std::to_string(trial.index)};
    for (const auto& [key, setting] : trial.settings) row.push_back(setting);
    row.push_back(value ? fmt::format("{:.6g}", *value) : "-");
    if (rungs > 1) row.push_back(fmt::format("{}/{}", trial.rungs.size(), rungs));
    row.insert(row.end(), {std::to_string(trial.epochs), std::to_string(trial.steps),
                           fmt::format("{:.1f}", trial.seconds), state_in_words(trial)});
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

}  // namespace lockstep::sweep
