#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/data/stored_array.hpp>

namespace lockstep {

/// A small table of comma-separated values (RFC 4180) in memory, from one file or several with the
/// same header, plain or gzip: a line of column names, then a line a sample. Cells are separated by
/// commas, semicolons or tabs, whichever the header has most of outside quotes; a cell in double
/// quotes may hold separators, line ends and doubled quotes. Empty lines are left out. Names of
/// columns and of classes are UTF-8 without NUL.
class CsvTable {
 public:
  /// Throws InputError, naming file and line, if one is missing, has no line of samples, a line has
  /// other than a cell a column, a quote does not end, the header names a column twice, or it is
  /// no UTF-8.
  explicit CsvTable(const std::vector<std::filesystem::path>& files);

  [[nodiscard]] std::int64_t rows() const noexcept { return std::ssize(places_); }
  [[nodiscard]] const std::vector<std::string>& columns() const noexcept { return columns_; }
  /// "iris.csv", "a.csv and 3 more".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Whether a cell with that text is a number.
  [[nodiscard]] static bool is_number(std::string_view text);
  /// Whether every cell of the column is one.
  [[nodiscard]] bool is_numeric(const std::string& column) const;
  /// The different cells of a column of words, in order. Throws InputError, naming file, line and
  /// column, for an empty cell, one that is no UTF-8, and for one that is no number where others
  /// are: more likely a damaged number than the name of a class.
  [[nodiscard]] std::vector<std::string> labels(const std::string& column) const;

  /// The numbers of these columns, [N, columns], or [N] of one column with `flat`; integers if all
  /// of them are. Throws InputError for a column that there is not, naming the nearest, and, naming
  /// file, line and column, for a cell that is no finite number.
  [[nodiscard]] std::shared_ptr<const StoredArray> numbers(const std::vector<std::string>& columns,
                                                           bool flat) const;
  /// The place of each cell of a column among `labels`: integers [N]. Throws InputError, naming
  /// file, line and cell, for one that is not among them.
  [[nodiscard]] std::shared_ptr<const StoredArray> codes(
      const std::string& column, const std::vector<std::string>& labels) const;

 private:
  struct Place {
    std::size_t file;
    std::int64_t line;
  };
  void add(std::size_t file);
  [[nodiscard]] std::size_t index_of(const std::string& column) const;
  [[nodiscard]] std::string_view cell(std::int64_t row, std::size_t column) const;
  /// "line 5 of iris.csv".
  [[nodiscard]] std::string where(std::int64_t row) const;

  std::vector<std::filesystem::path> files_;
  std::string name_;
  std::vector<std::string> columns_;
  std::deque<std::string> texts_;        ///< of the files, and of cells whose quotes were taken off
  std::vector<std::string_view> cells_;  ///< row by row
  std::vector<Place> places_;            ///< of each row
};

}  // namespace lockstep
