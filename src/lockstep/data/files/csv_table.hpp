#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <lockstep/data/files/stored_array.hpp>

namespace lockstep {

/// Whether a table's first line names its columns. automatic takes it for names, but refuses a line
/// that looks like samples.
enum class CsvHeader : std::uint8_t { automatic, yes, no };

/// The columns of a table to read: all if no names are given.
struct UsedColumns {
  std::vector<std::string> names;
  bool and_last = false;  ///< also takes the table's last column
};

/// A small table of comma-separated values (RFC 4180) in memory, from one file or several with the
/// same header, plain or gzip: a line of column names, then one line per sample. Cells are
/// separated by commas, semicolons or tabs, whichever the header has most of outside quotes. A cell
/// in double quotes may hold separators, line ends and doubled quotes. Empty lines are skipped.
/// Names of columns and of classes are UTF-8 without NUL. "# " before the header, as numpy.savetxt
/// writes it, is not part of a name. Numbers are those of csv_number(), with decimal commas if
/// semicolons separate cells and a number of the columns in use has one.
class CsvTable {
 public:
  /// Without a header columns are "column_1", "column_2" ... Throws InputError, naming file and
  /// line, if the `used` columns mix decimal commas and points. Likewise if a file is missing or
  /// has no samples, a line has the wrong number of cells, or a quote does not end. Likewise if the
  /// header names a column twice, is not UTF-8 or, with CsvHeader::automatic, looks like samples:
  /// all its names are numbers, or some are, and the same columns of the next line are too.
  explicit CsvTable(const std::vector<std::filesystem::path>& files,
                    CsvHeader header = CsvHeader::automatic, const UsedColumns& used = {});

  [[nodiscard]] std::int64_t rows() const noexcept { return std::ssize(places_); }
  [[nodiscard]] const std::vector<std::string>& columns() const noexcept { return columns_; }
  /// "iris.csv", "a.csv and 3 more".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Whether this text of a cell is a number.
  [[nodiscard]] static bool is_number(std::string_view text);
  /// Whether every cell of the column is a number.
  [[nodiscard]] bool is_numeric(const std::string& column) const;
  /// The distinct cells of a column of words, sorted. Throws InputError, naming file, line and
  /// column, for an empty cell, a cell that is not UTF-8, and a cell that is not a number where
  /// others are: more likely a damaged number than the name of a class.
  [[nodiscard]] std::vector<std::string> labels(const std::string& column) const;

  /// The numbers of these columns, [N, columns], or [N] of one column with `flat`; integers if all
  /// of them are. Throws InputError for an unknown column, naming the nearest, and for a cell that
  /// is not a finite number, naming file, line and column.
  [[nodiscard]] std::shared_ptr<const StoredArray> numbers(const std::vector<std::string>& columns,
                                                           bool flat) const;
  /// The index in `labels` of each cell of a column: integers [N]. Throws InputError, naming file,
  /// line and cell, for a cell that is not among them.
  [[nodiscard]] std::shared_ptr<const StoredArray> codes(
      const std::string& column, const std::vector<std::string>& labels) const;

 private:
  struct Place {
    std::size_t file;
    std::int64_t line;
  };
  void add(std::size_t file, CsvHeader header);
  /// Column names from the cells of a header at `where`.
  void take_names(std::size_t file, const std::vector<std::string>& names,
                  const std::string& where);
  void add_row(const std::vector<std::string_view>& cells, Place place);
  void find_decimal_sign(const UsedColumns& used);
  /// The finite number in a cell, if it is one.
  [[nodiscard]] std::optional<double> number(std::string_view cell) const;
  [[nodiscard]] std::size_t index_of(const std::string& column) const;
  [[nodiscard]] std::string_view cell(std::int64_t row, std::size_t column) const;
  /// "line 5 of iris.csv".
  [[nodiscard]] std::string where(std::int64_t row) const;
  [[nodiscard]] std::string where(const Place& place) const;

  std::vector<std::filesystem::path> files_;
  std::string name_;
  std::vector<std::string> columns_;
  std::unordered_map<std::string, std::size_t> places_of_columns_;
  bool has_header_;         ///< cells that name the columns
  bool semicolons_ = true;  ///< separators of the cells of all files
  char decimal_ = '.';
  std::deque<std::string> texts_;  ///< contents of the files, and cells whose quotes were removed
  std::vector<std::string_view> cells_;  ///< row by row
  std::vector<Place> places_;            ///< line number of each row
};

}  // namespace lockstep
