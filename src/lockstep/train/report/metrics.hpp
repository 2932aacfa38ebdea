#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/io/file.hpp>
#include <lockstep/train/report/step_clock.hpp>
#include <lockstep/train/task/outcome.hpp>

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
  double of_peak = -1;      ///< share of what products reach; -1 where layers skip flops
  double seconds = -1;      ///< wall-clock the line stands for
  bool has_times = false;
  TimeSplit times;
  std::optional<Slowest> slowest;  ///< with times, where a rank stands out
};

/// Appends to metrics.jsonl, a flushed line a row, and keeps rows of this run (those of an earlier
/// part included) for the report: of a long run every so many-th, so that memory stays flat. Local.
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
  /// A row that finds no room, or cannot be written for another reason, is warned of and kept: it
  /// is written with a later one, or by flush(). Throws FileError once more than `most_unwritten`
  /// bytes wait.
  void append(const MetricsRow& row);
  static constexpr std::size_t most_unwritten = std::size_t{1} << 20;
  /// Writes what waits. Throws FileError.
  void flush();
  /// In their order: of at most `most_rows` "step" rows every so many-th, of as many "epoch" and
  /// "eval" rows those of every so many-th epoch, and the newest of each kind and set.
  [[nodiscard]] const std::vector<MetricsRow>& rows() const noexcept { return rows_; }
  static constexpr std::int64_t most_rows = 4096;
  /// Of how many epochs rows() has one; 1: all.
  [[nodiscard]] std::int64_t epochs_apart() const noexcept { return epochs_.stride; }
  /// Steps behind `step` that this file's own dropped rows tell of: lost work. A row comes every
  /// log.every_steps, so there may have been some more.
  [[nodiscard]] std::int64_t steps_again() const noexcept { return steps_again_; }

 private:
  /// Rows whose index is a multiple of the stride stay.
  struct Thinned {
    std::int64_t stride = 1, kept = 0, seen = 0;
  };
  /// What of `past_` is before the point from which the run goes on.
  [[nodiscard]] bool is_past(const MetricsRow& row) const noexcept;
  void keep(MetricsRow row);
  void erase(std::size_t at);

  File file_;
  std::int64_t end_ = 0;   ///< of whole lines in the file
  std::string unwritten_;  ///< whole lines
  bool is_warned_of_ = false;
  std::filesystem::path path_;
  std::filesystem::path past_;  ///< read again by begin(); empty: none
  std::int64_t step_ = 0, epochs_done_ = 0;
  std::vector<MetricsRow> rows_;
  std::vector<std::int64_t> indices_;  ///< of rows_: number among "step" rows, or epoch
  Thinned steps_, epochs_;
  std::int64_t steps_again_ = 0;
};

}  // namespace lockstep::train
