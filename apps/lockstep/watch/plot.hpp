#pragma once
// Curves in characters.
#include <string>
#include <vector>

#include "report/curves.hpp"

namespace lockstep::watch {

/// `rows` lines of at most `columns` characters: '*' where the curve is in a column, from its
/// smallest to its largest value there; before it the scale, and below it the first and last x.
/// Values that are no numbers are left out. Nothing if no two points can be drawn, or if there is
/// no room: fewer than 30 columns or 4 rows.
[[nodiscard]] std::vector<std::string> plot(const report::Curve& curve, int columns, int rows);

}  // namespace lockstep::watch
