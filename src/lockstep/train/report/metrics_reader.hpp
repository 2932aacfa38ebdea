#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include <lockstep/train/report/metrics.hpp>

namespace lockstep::train {

/// Reads a metrics.jsonl that a run may be writing, row by row, and goes on where it stopped.
/// Local.
class MetricsReader {
 public:
  explicit MetricsReader(std::filesystem::path file) : path_(std::move(file)) {}

  /// Calls `row` for each whole row that is new since the last call, in order. A resumed run
  /// replaces the file: then `again` is called first, and all rows follow. A file that does not
  /// exist has no rows. Throws InputError if it is no regular file, or the disk fails.
  void read(
      const std::function<void(const MetricsRow&)>& row,
      const std::function<void()>& again = [] {});

  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  /// Whole lines that are no rows, and the number of the first, from 1.
  [[nodiscard]] std::int64_t invalid_lines() const noexcept { return invalid_lines_; }
  [[nodiscard]] std::int64_t first_invalid_line() const noexcept { return first_invalid_line_; }
  /// The file ends in the midst of a line: it is being written, or its writer was killed.
  [[nodiscard]] bool has_unfinished_line() const noexcept { return !unfinished_.empty(); }

 private:
  void take(const std::string& line, const std::function<void(const MetricsRow&)>& row);

  std::filesystem::path path_;
  std::uint64_t device_ = 0, inode_ = 0;  ///< of the file that was read; 0: none
  std::int64_t offset_ = 0;               ///< bytes that were read
  std::string unfinished_;                ///< of them behind the last end of a line
  std::int64_t rows_ = 0, lines_ = 0, invalid_lines_ = 0, first_invalid_line_ = 0;
};

}  // namespace lockstep::train
