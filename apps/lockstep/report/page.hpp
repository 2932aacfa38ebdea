#pragma once
// A page of charts and tables as one HTML file. Every text may come from a run's files: it reaches
// the page as data (JSON in which "<" is escaped), and page.js makes text nodes of it.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "curves.hpp"

namespace lockstep::report {

enum class Style : std::uint8_t {
  line,
  faint,  ///< behind others
  dashed,
  dots,  ///< a line with its points
  area,  ///< stacked on the series before it
};

struct Series {
  std::string label;
  std::size_t colour = 0;  ///< series of one run share it
  Style style = Style::line;
  Curve curve;
};

struct Chart {
  std::string title, x = "step", y;  ///< axes with their units
  std::vector<Series> series;
  bool log_x = false, from_zero = false;
  bool may_be_log = false;      ///< offers a logarithmic y axis
  std::vector<double> marks{};  ///< vertical lines
};

struct Table {
  struct Row {
    std::vector<std::string> cells;
    bool is_marked = false;
  };
  std::vector<std::string> head;
  std::vector<Row> rows;
};

/// Text that is unfolded on demand.
struct Details {
  std::string summary, text;
};

struct Section {
  std::string title;
  std::vector<std::string> text;
  std::vector<Chart> charts;
  std::vector<Table> tables;
  std::vector<Details> details;
};

struct Page {
  std::string title;
  std::vector<std::string> notes;  ///< missing files, and runs that cannot be compared
  std::vector<Section> sections;
};

/// Columns of a chart: curves with more than 4 points in each are thinned().
inline constexpr std::int64_t chart_columns = 400;

/// Charts are drawn by dygraphs, which the page holds. Throws Error if this program was built
/// without it.
[[nodiscard]] std::string html(const Page& page);

}  // namespace lockstep::report
