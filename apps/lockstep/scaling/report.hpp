#pragma once
// A study for people and programs: table, JSON, plot.
#include <filesystem>
#include <string>
#include <vector>

#include "analysis.hpp"
#include "identity.hpp"
#include "json.hpp"
#include "model/prediction.hpp"

namespace lockstep::scaling {

/// A line a size: medians over the repeats, and of the step the least and the most.
[[nodiscard]] std::string table(Mode mode, const std::vector<Figures>& figures);

/// Of the benchmarks of one size (machine_speed.hpp), a few lines.
[[nodiscard]] std::string benchmark_lines(const Json& benchmarks);

/// scaling.json: what the study is of, figures of each size, every sample, the benchmarks.
[[nodiscard]] Json study_json(const Identity& identity, const std::vector<Result>& results,
                              const Json& benchmarks);

/// gnuplot's script: speed-up, with the ideal line and the scatter of the repeats, and efficiency,
/// a point each a size; predicted ones hollow, on dashed lines. "" if nothing was measured.
[[nodiscard]] std::string plot_script(Mode mode, const std::vector<Figures>& figures,
                                      const std::string& svg,
                                      const std::vector<Predicted>& predicted = {});
/// Draws it with gnuplot. What to tell the user: the file's name, or why there is none.
[[nodiscard]] std::string draw(Mode mode, const std::vector<Figures>& figures,
                               const std::filesystem::path& svg,
                               const std::vector<Predicted>& predicted = {});

}  // namespace lockstep::scaling
