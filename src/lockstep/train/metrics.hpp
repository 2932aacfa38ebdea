#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {

/// Smallest, mean and largest value over the ranks.
struct Spread {
  double min = 0, mean = 0, max = 0;
};

/// Where the seconds of a stretch of steps went, over the ranks.
struct TimeSplit {
  Spread compute;        ///< forward, backward, optimizer
  Spread communication;  ///< waiting for gradients (exposed communication)
  Spread data;           ///< waiting for the loader
  Spread other;          ///< logging, checkpoints, everything else
};

/// Names and values of a task's metrics, in the task's order.
using NamedFigures = std::vector<std::pair<std::string, double>>;

/// One line of metrics.jsonl. Absent figures are not written.
struct MetricsRow {
  std::string kind;  ///< "step", "epoch" or "eval"
  std::int64_t step = 0;
  std::int64_t epoch = 0;  ///< from 1
  double loss = 0;         ///< mean over the samples it stands for
  NamedFigures metrics;    ///< of "eval" rows: the task's, each a key of its own
  double lr = -1;
  double grad_norm = -1;  ///< of the whole gradient before clipping; negative: not measured
  double samples_per_s = -1;
  double seconds = -1;  ///< wall-clock the line stands for
  bool has_times = false;
  TimeSplit times;
};

/// Appends to metrics.jsonl, a flushed line a row, and keeps the rows of this run (those of an
/// earlier part included) for the report.
class MetricsFile {
 public:
  MetricsFile() = default;
  /// Opens the file; when resuming, rows after `resume_step` are dropped: they are computed again.
  MetricsFile(const std::filesystem::path& file, bool resume, std::int64_t resume_step);

  void append(const MetricsRow& row);
  [[nodiscard]] const std::vector<MetricsRow>& rows() const noexcept { return rows_; }

 private:
  std::ofstream out_;
  std::filesystem::path path_;
  std::vector<MetricsRow> rows_;
};

}  // namespace lockstep::train
