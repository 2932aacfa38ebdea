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

/// Whether a table's first line names its columns: automatic takes it for names, but refuses a line
/// that looks like samples.
enum class CsvHeader : std::uint8_t { automatic, yes, no };

/// The columns of a table that are read: all of them if no names are given.
struct UsedColumns {
  std::vector<std::string> names;
  bool and_last = false;  ///< the table's last one too
};

/// A small table of comma-separated values (RFC 4180) in memory, from one file or several with the
/// same header, plain or gzip: a line of column names, then a line a sample. Cells are separated by
/// commas, semicolons or tabs, whichever the header has most of outside quotes; a cell in double
/// quotes may hold separators, line ends and doubled quotes. Empty lines are left out. Names of
/// columns and of classes are UTF-8 without NUL. "# " in front of the header, as numpy.savetxt
/// writes it, is not part of a name. Numbers are those of csv_number(), with decimal commas where
/// cells are separated by semicolons and a number of the columns that are used has one.
class CsvTable {
 public:
  /// Without a header columns are "column_1", "column_2" ... Throws InputError,
  /// naming file and line, if among the `used` ones are numbers with a decimal comma and others
  /// with a point, or if a file is missing, has no line of samples,
  /// a line has other than a cell a column, a quote does not end, the header names a column twice,
  /// is no UTF-8 or, with CsvHeader::automatic, looks like samples: all its names are numbers, or
  /// some, and the same columns of the next line are.
  explicit CsvTable(const std::vector<std::filesystem::path>& files,
                    CsvHeader header = CsvHeader::automatic, const UsedColumns& used = {});

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
  void add(std::size_t file, CsvHeader header);
  /// Names of columns from the cells of a header in `where`.
  void take_names(std::size_t file, const std::vector<std::string>& names,
                  const std::string& where);
  void add_row(const std::vector<std::string_view>& cells, Place place);
  void find_decimal_sign(const UsedColumns& used);
  /// The finite number of a cell, if it is one.
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
  bool has_header_;         ///< which names the columns
  bool semicolons_ = true;  ///< separate the cells of all files
  char decimal_ = '.';
  std::deque<std::string> texts_;        ///< of the files, and of cells whose quotes were taken off
  std::vector<std::string_view> cells_;  ///< row by row
  std::vector<Place> places_;            ///< of each row
};

}  // namespace lockstep
