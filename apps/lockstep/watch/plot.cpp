#include "plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <lockstep/train/report/report.hpp>

namespace lockstep::watch {

std::vector<std::string> plot(const report::Curve& curve, int columns, int rows) {
  constexpr int fewest_columns = 30, fewest_rows = 4;
  report::Curve points;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (std::isfinite(curve.y[i])) points.add(curve.x[i], curve.y[i]);
  }
  if (points.size() < 2 || columns < fewest_columns || rows < fewest_rows) return {};
  const auto [low, high] = std::ranges::minmax_element(points.y);
  const std::string top = train::in_figures(*high), bottom = train::in_figures(*low);
  const auto margin = std::max(top.size(), bottom.size()) + 2;
  const std::size_t width = static_cast<std::size_t>(columns) - margin;
  const int height = rows - 1;
  const double range = *high - *low, begin = points.x.front(), span = points.x.back() - begin;
  std::vector<std::string> lines(static_cast<std::size_t>(height), std::string(width, ' '));
  const auto column_of = [&](double x) {
    return span > 0 ? static_cast<std::size_t>(
                          std::lround((x - begin) / span * static_cast<double>(width - 1)))
                    : 0;
  };
  const auto row_of = [&](double y) {  // 0 is the top
    return range > 0 ? static_cast<int>(std::lround((*high - y) / range * (height - 1))) : 0;
  };
  for (std::size_t i = 0; i < points.size();) {
    const std::size_t column = column_of(points.x[i]);
    int first = row_of(points.y[i]), last = first;
    for (; i < points.size() && column_of(points.x[i]) == column; ++i) {
      first = std::min(first, row_of(points.y[i]));
      last = std::max(last, row_of(points.y[i]));
    }
    for (int row = first; row <= last; ++row) lines[static_cast<std::size_t>(row)][column] = '*';
  }
  for (int row = 0; row < height; ++row) {
    std::string& line = lines[static_cast<std::size_t>(row)];
    const std::string& scale = row == 0 ? top : row == height - 1 ? bottom : "";
    line = fmt::format("{:>{}} |{}", scale, margin - 2, line);
    line.erase(line.find_last_not_of(' ') + 1);
  }
  const std::string first = fmt::format("step {:.0f}", begin);
  lines.push_back(fmt::format("{:{}}{}{:>{}.0f}", "", margin, first, points.x.back(),
                              width - std::min(width, first.size())));
  return lines;
}

}  // namespace lockstep::watch
