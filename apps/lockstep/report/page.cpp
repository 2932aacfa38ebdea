#include "page.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string_view>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/version.hpp>

#include "embedded.hpp"
#include "json.hpp"

namespace lockstep::report {
namespace {

const char* words(Style style) {
  switch (style) {
    case Style::line:
      return "line";
    case Style::faint:
      return "faint";
    case Style::dashed:
      return "dashed";
    case Style::dots:
      return "dots";
    case Style::area:
      return "area";
  }
  return "";
}

/// Six digits, more than a chart shows. A number that is not finite becomes null.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (std::abs(value) < 1e15 && value == std::floor(value)) return static_cast<std::int64_t>(value);
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

Json numbers(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(number(value));
  return json;
}

Json json_of(const Series& series) {
  const Curve drawn = thinned(series.curve, chart_columns);
  return {{"label", series.label}, {"colour", series.colour}, {"style", words(series.style)},
          {"x", numbers(drawn.x)}, {"y", numbers(drawn.y)},   {"points", series.curve.size()}};
}

Json json_of(const Chart& chart) {
  Json json{{"title", chart.title},
            {"x", chart.x},
            {"y", chart.y},
            {"log_x", chart.log_x},
            {"from_zero", chart.from_zero},
            {"may_be_log", chart.may_be_log},
            {"marks", numbers(chart.marks)}};
  json["series"] = Json::array();
  for (const Series& one : chart.series) json["series"].push_back(json_of(one));
  return json;
}

Json json_of(const Table& table) {
  Json json{{"head", table.head}};
  json["rows"] = Json::array();
  for (const Table::Row& row : table.rows)
    json["rows"].push_back({{"cells", row.cells}, {"is_marked", row.is_marked}});
  return json;
}

Json json_of(const Section& section) {
  Json json{{"title", section.title}, {"text", section.text}};
  for (const char* list : {"charts", "tables", "details"}) json[list] = Json::array();
  for (const Chart& chart : section.charts) json["charts"].push_back(json_of(chart));
  for (const Table& table : section.tables) json["tables"].push_back(json_of(table));
  for (const auto& [summary, text] : section.details)
    json["details"].push_back({{"summary", summary}, {"text", text}});
  return json;
}

/// In a script element, text ends at "</script" and changes its meaning at "<!--".
std::string json_for_script(const Page& page) {
  Json json{{"title", page.title},
            {"made", utc_text("%Y-%m-%d %H:%M UTC")},
            {"version", version()},
            {"columns", chart_columns},
            {"notes", page.notes}};
  json["sections"] = Json::array();
  for (const Section& section : page.sections) json["sections"].push_back(json_of(section));
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string html(const Page& page) {
  if (embedded::dygraph_js.empty()) {
    throw Error(
        "this lockstep was built without dygraphs, which draws the charts: install it (Debian: "
        "libjs-dygraphs) or set LOCKSTEP_DYGRAPHS to its folder, configure with --fresh, and build "
        "again. lockstep watch works without it.");
  }
  // page.html names its parts as {{name}}.
  std::string text;
  std::string_view rest = embedded::page_html;
  for (std::size_t at = 0; (at = rest.find("{{")) != std::string_view::npos;) {
    const std::size_t end = rest.find("}}", at);
    const std::string_view name = rest.substr(at + 2, end - at - 2);
    text += rest.substr(0, at);
    rest.remove_prefix(end + 2);
    if (name == "dygraph.css") text += embedded::dygraph_css;
    if (name == "dygraph.js") text += embedded::dygraph_js;
    if (name == "page.css") text += embedded::page_css;
    if (name == "page.js") text += embedded::page_js;
    if (name == "data") text += json_for_script(page);
  }
  return text.append(rest);
}

}  // namespace lockstep::report
