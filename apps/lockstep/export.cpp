#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/file.hpp>
#include <lockstep/train/report/standard_output.hpp>

#include "commands.hpp"

namespace lockstep::utility {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Cells = std::vector<std::pair<std::string, Json>>;

bool is_text(const Json& value) { return value.is_string() || value.is_boolean(); }

/// RFC 4180.
std::string quoted_if_needed(const std::string& text) {
  if (text.find_first_of("\",\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string cell_of(const Json& value, bool in_column_of_text) {
  if (value.is_null()) return in_column_of_text ? "" : "nan";
  return quoted_if_needed(value.is_string() ? value.get<std::string>() : value.dump());
}

/// "time_min_mean_max_s/compute/mean"; elements of other arrays are numbered.
void add_cells(const Json& json, const std::string& name, Cells& cells) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items())
      add_cells(value, name.empty() ? key : fmt::format("{}/{}", name, key), cells);
  } else if (json.is_array()) {
    constexpr std::array spread{"min", "mean", "max"};
    const bool is_spread =
        json.size() == spread.size() && name.find("min_mean_max") != std::string::npos;
    for (std::size_t i = 0; i < json.size(); ++i) {
      add_cells(json.at(i), fmt::format("{}/{}", name, is_spread ? spread[i] : std::to_string(i)),
                cells);
    }
  } else {
    cells.emplace_back(name, json);
  }
}

/// Calls `visit` with the cells of each line. A line that is not whole, as a killed run may leave
/// its last one, is left out.
template <class Visit>
void for_each_line(const fs::path& file, const Visit& visit) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    Cells cells;
    add_cells(json, "", cells);
    visit(cells);
  }
}

}  // namespace

ExitCode export_csv(const std::string& source, const std::string& output) {
  const fs::path named = source, file = fs::is_directory(named) ? named / "metrics.jsonl" : named;
  if (!fs::exists(file)) throw InputError(fmt::format("there is no {}", file.string()));
  static_cast<void>(File::open_for_reading(file));
  if (!output.empty()) expect_not_replaced(file, output);
  std::vector<std::string> columns;
  std::set<std::string> of_text;  // their nulls are no numbers that are not finite
  for_each_line(file, [&](const Cells& cells) {
    for (const auto& [name, value] : cells) {
      if (is_text(value)) of_text.insert(name);
      if (std::ranges::find(columns, name) == columns.end()) columns.push_back(name);
    }
  });
  if (columns.empty())
    throw InputError(fmt::format("{} has no line that is a JSON object", file.string()));
  std::string text;
  for (std::size_t i = 0; i < columns.size(); ++i)
    text += (i > 0 ? "," : "") + quoted_if_needed(columns[i]);
  text += '\n';
  for_each_line(file, [&](const Cells& cells) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto at = std::ranges::find(cells, columns[i], &Cells::value_type::first);
      if (i > 0) text += ',';
      if (at != cells.end()) text += cell_of(at->second, of_text.contains(columns[i]));
    }
    text += '\n';
  });
  if (output.empty()) {
    train::write_stdout(text);
  } else {
    write_atomically(output, text);
  }
  return ExitCode::done;
}

}  // namespace lockstep::utility
