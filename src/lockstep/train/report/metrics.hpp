#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/io/appended_file.hpp>
#include <lockstep/train/report/step_clock.hpp>
#include <lockstep/train/task/outcome.hpp>

namespace lockstep::train {

/// One line of metrics.jsonl. Missing figures are left out.
struct MetricsRow {
  std::string kind;  ///< "step", "epoch" or "eval"
  std::int64_t step = 0;
  std::int64_t epoch = 0;         ///< from 1
  std::int64_t total_steps = -1;  ///< for "step" rows: steps of the whole run, as planned
  double loss = 0;                ///< mean over the samples since the last row
  std::string set = "test";       ///< for "eval" rows: "validation" or "test"
  NamedFigures metrics;  ///< for "eval" rows: the task's metrics, each with a key of its own
  double lr = -1;
  double grad_norm = -1;  ///< of the whole gradient before clipping; negative: not measured
  double samples_per_s = -1, tokens_per_s = -1;
  double flops_per_s = -1;  ///< of all ranks together, StepTimes::flops
  double of_peak = -1;      ///< share of what products reach; -1 where layers skip flops
  double seconds = -1;      ///< wall-clock the line stands for
  bool has_times = false;
  TimeSplit times;
  std::optional<Slowest> slowest;  ///< with times, if a rank stands out
};

/// The row's numbers by name: "loss", "time_min_mean_max_s/compute/mean". Not kind, step and set;
/// values that are no numbers are left out.
[[nodiscard]] NamedFigures figures_of(const MetricsRow& row);

/// The row that a line of metrics.jsonl holds. Nothing for an invalid line: the last one of a
/// killed run may be half a line, and a disk or an editor may have changed others.
[[nodiscard]] std::optional<MetricsRow> metrics_row_of(const std::string& line);

/// Appends to metrics.jsonl, one flushed line per row, and keeps rows of this run (including its
/// earlier parts) for the report. For a long run it keeps only every n-th, so that memory stays
/// bounded. Local.
class MetricsFile {
 public:
  MetricsFile() = default;
  /// For a run that begins.
  explicit MetricsFile(std::filesystem::path file) : path_(std::move(file)) {}
  /// For one that resumes at `step` with `epochs` epochs finished. Its history are the rows of
  /// `past` up to there. `past` is the file of the run or branch that it resumes; it may be this
  /// file, or missing. Later rows are computed again, or belong to another branch.
  MetricsFile(std::filesystem::path file, const std::filesystem::path& past, std::int64_t step,
              std::int64_t epochs);

  /// Makes the file: the rows of the history, whole or not at all. Call before append(). Throws
  /// FileError.
  void begin();
  /// Appends a row. If it cannot be written, for example to a full disk, logs a warning and keeps
  /// it to write with a later one, or in flush(). Throws FileError once more than `most_unwritten`
  /// bytes wait.
  void append(const MetricsRow& row);
  static constexpr std::size_t most_unwritten = std::size_t{1} << 20;
  /// Writes rows that wait. Throws FileError.
  void flush();
  /// Whether this file itself has the history: the run neither begins nor continues another one.
  [[nodiscard]] bool continues_itself() const noexcept { return continues_itself_; }
  /// In order: of at most `most_rows` "step" rows every n-th, of as many "epoch" and "eval" rows
  /// those of every n-th epoch, and the newest of each kind and set.
  [[nodiscard]] const std::vector<MetricsRow>& rows() const noexcept { return rows_; }
  static constexpr std::int64_t most_rows = 4096;
  /// The distance of epochs in rows(); 1: all.
  [[nodiscard]] std::int64_t epochs_apart() const noexcept { return epochs_.stride; }
  /// Steps after `step` in dropped rows of this file: lost work. A row is written every
  /// log.every_steps, so there may have been some more.
  [[nodiscard]] std::int64_t steps_again() const noexcept { return steps_again_; }

 private:
  /// Rows whose index is a multiple of the stride are kept.
  struct Thinned {
    std::int64_t stride = 1, kept = 0, seen = 0;
  };
  /// The rows of `past_` before the point from which the run resumes.
  [[nodiscard]] bool is_past(const MetricsRow& row) const noexcept;
  void keep(MetricsRow row);
  void erase(std::size_t at);

  AppendedFile file_;
  bool is_warned_of_ = false;
  std::filesystem::path path_;
  bool continues_itself_ = false;
  std::filesystem::path past_;  ///< read again by begin(); empty: none
  std::int64_t step_ = 0, epochs_done_ = 0;
  std::vector<MetricsRow> rows_;
  std::vector<std::int64_t> indices_;  ///< for rows_: number among "step" rows, or epoch
  Thinned steps_, epochs_;
  std::int64_t steps_again_ = 0;
};

}  // namespace lockstep::train
