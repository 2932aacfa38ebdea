#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/train/outcome.hpp>
#include <lockstep/train/step_clock.hpp>

namespace lockstep::train {

/// One line of metrics.jsonl. Absent figures are not written.
struct MetricsRow {
  std::string kind;  ///< "step", "epoch" or "eval"
  std::int64_t step = 0;
  std::int64_t epoch = 0;    ///< from 1
  double loss = 0;           ///< mean over the samples it stands for
  std::string set = "test";  ///< of "eval" rows: "validation" or "test"
  NamedFigures metrics;      ///< of "eval" rows: the task's, each a key of its own
  double lr = -1;
  double grad_norm = -1;  ///< of the whole gradient before clipping; negative: not measured
  double samples_per_s = -1, tokens_per_s = -1;
  double flops_per_s = -1;  ///< of all ranks together, StepTimes::flops
  double of_peak = -1;      ///< their share of what large matrix products reach on as many cores
  double seconds = -1;      ///< wall-clock the line stands for
  bool has_times = false;
  TimeSplit times;
  std::optional<Slowest> slowest;  ///< with times, where a rank stands out
};

/// Appends to metrics.jsonl, a flushed line a row, and keeps the rows of this run (those of an
/// earlier part included) for the report. Local.
class MetricsFile {
 public:
  MetricsFile() = default;
  /// Of a run that begins.
  explicit MetricsFile(std::filesystem::path file) : path_(std::move(file)) {}
  /// Of one that goes on at `step`, `epochs` epochs being finished. Its past are the rows up to
  /// there of `past`, the file of the run or branch that it goes on from, which may be this one, or
  /// not there: what comes later is computed again, or another branch's.
  MetricsFile(std::filesystem::path file, const std::filesystem::path& past, std::int64_t step,
              std::int64_t epochs);

  /// Makes the file: the rows of the past, whole or not at all. Before append(). Throws FileError.
  void begin();
  /// Throws FileError.
  void append(const MetricsRow& row);
  [[nodiscard]] const std::vector<MetricsRow>& rows() const noexcept { return rows_; }
  /// Steps behind `step` that this file's own dropped rows tell of: lost work. A row comes every
  /// log.every_steps, so there may have been some more.
  [[nodiscard]] std::int64_t steps_again() const noexcept { return steps_again_; }

 private:
  std::ofstream out_;
  std::filesystem::path path_;
  std::vector<MetricsRow> rows_;
  std::string past_;  ///< lines, until begin()
  std::int64_t steps_again_ = 0;
};

}  // namespace lockstep::train
