#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/task/outcome.hpp>

namespace lockstep::train {

/// "0.4312"; a smaller number as "1.234e-05", where four decimals would be zeros.
[[nodiscard]] std::string in_figures(double value);

/// The table at the end of a run: one line per epoch (training loss, validation or test loss, the
/// task's metrics, samples/s and shares of time, as means over ranks).
[[nodiscard]] std::string report_table(const std::vector<MetricsRow>& rows);

/// Mean times of a step's parts, one line per rank; for more than 16 ranks smallest, mean and
/// largest values. Then the rank that the others wait for, if there is one.
[[nodiscard]] std::string anatomy_table(const std::vector<StepTimes>& ranks);

/// "bf16_compress: each rank sent 12.30 MB, 2.0 times less than the 24.60 MB of all_reduce".
[[nodiscard]] std::string traffic_in_words(const HookReport& hook);

/// Draws the losses and the task's first metric over the steps as an SVG with gnuplot. Returns a
/// text for the user: the file's name, or why there is none; gnuplot is killed after `limit_s`
/// seconds.
[[nodiscard]] std::string draw_curves(const std::vector<MetricsRow>& rows,
                                      const std::filesystem::path& svg, double limit_s = 20);

}  // namespace lockstep::train
