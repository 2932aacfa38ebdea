#include <lockstep/data/csv_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <type_traits>

#include <lockstep/base/error.hpp>
#include <lockstep/data/byte_source.hpp>
#include <lockstep/data/csv_lines.hpp>
#include <lockstep/data/utf8.hpp>
#include <lockstep/deck/did_you_mean.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Numbers in memory, row by row.
class NumbersInMemory final : public StoredArray {
 public:
  NumbersInMemory(std::vector<double> numbers, const Shape& shape, std::string description)
      : numbers_(std::move(numbers)),
        shape_(shape),
        description_(std::move(description)),
        integers_(std::ranges::all_of(numbers_, [](double x) { return x == std::trunc(x); })) {}

  [[nodiscard]] const Shape& shape() const noexcept override { return shape_; }
  [[nodiscard]] bool integers() const noexcept override { return integers_; }
  [[nodiscard]] bool bytes() const noexcept override { return false; }
  [[nodiscard]] const std::string& description() const noexcept override { return description_; }
  void read(std::int64_t begin, std::int64_t end, std::span<float> out) const override {
    read_rows(begin, end, out);
  }
  void read(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const override {
    read_rows(begin, end, out);
  }
  void read(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const override {
    read_rows(begin, end, out);
  }
  void expect_unchanged() const override {}

 private:
  template <class T>
  void read_rows(std::int64_t begin, std::int64_t end, std::span<T> out) const {
    expect_rows(begin, end, std::ssize(out));
    const auto first = numbers_.begin() + begin * row_elements();
    if constexpr (std::is_integral_v<T>) expect_exact(std::span(first, out.size()), begin);
    std::transform(first, first + std::ssize(out), out.begin(),
                   [](double x) { return static_cast<T>(x); });
  }

  /// From 2^53 on two integers may be one double; from 2^63 on there is no i64.
  void expect_exact(std::span<const double> numbers, std::int64_t first_row) const {
    const auto bad = std::ranges::find_if(numbers, [](double x) { return std::abs(x) >= 0x1p53; });
    if (bad == numbers.end()) return;
    const std::int64_t at = bad - numbers.begin(), width = row_elements();
    throw InputError(fmt::format(
        "{}: element {} of sample {} is {}, but labels and indices lie below 2^53. Repair the "
        "data, or number the classes from 0 on.",
        description_, at % width, first_row + at / width, *bad));
  }

  std::vector<double> numbers_;
  Shape shape_;
  std::string description_;
  bool integers_;
};

std::string text_of(const fs::path& file) {
  ByteSource source(file);
  std::string text;
  std::array<std::byte, 1 << 16> piece{};
  while (const std::size_t size = source.read(piece))
    text.append(reinterpret_cast<const char*>(piece.data()), size);
  return text;
}

/// Spreadsheets call it "Unicode text".
void expect_no_utf16(std::string_view text, const std::string& name) {
  if (!text.starts_with("\xff\xfe") && !text.starts_with("\xfe\xff")) return;
  throw InputError(
      fmt::format("{} is UTF-16 text. Save the table as UTF-8 (iconv -f utf-16 -t utf-8).", name));
}

/// Names of columns and classes go into decks and checkpoints, which are UTF-8 without NUL: others
/// could be written there, but never read again.
void expect_name(std::string_view name, const std::string& where) {
  for (std::size_t at = 0; at < name.size();) {
    const Utf8Character character = utf8_character(name, at);
    if (character.bytes == 0) {
      throw InputError(fmt::format(
          "{}: byte {:#04x} is no UTF-8 text. Save the table as UTF-8 (iconv -f latin1 -t utf-8).",
          where, static_cast<unsigned char>(name[at])));
    }
    if (character.code == 0) {
      throw InputError(
          fmt::format("{}: a name holds a NUL byte. Save the table as UTF-8 text.", where));
    }
    at += static_cast<std::size_t>(character.bytes);
  }
}

/// A finite number within f32's range.
std::optional<double> number_of(std::string_view cell) {
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  if (error != std::errc() || end != cell.data() + cell.size()) return std::nullopt;
  if (!std::isfinite(static_cast<float>(number))) return std::nullopt;
  return number;
}

}  // namespace

CsvTable::CsvTable(const std::vector<fs::path>& files)
    : files_(files), name_(files.at(0).string()) {
  if (files.size() > 1) name_ += fmt::format(" and {} more", files.size() - 1);
  for (std::size_t file = 0; file < files.size(); ++file) add(file);
}

void CsvTable::add(std::size_t file) {
  const std::string name = files_[file].string();
  const std::string& text = texts_.emplace_back(text_of(files_[file]));
  expect_no_utf16(text, name);
  CsvLines lines(text, texts_, name);
  std::vector<std::string_view> cells;
  if (!lines.next(cells)) throw InputError(fmt::format("{} is empty: it needs a header.", name));
  const std::vector<std::string> header(cells.begin(), cells.end());
  for (const std::string& column : header) {
    expect_name(column, fmt::format("line {} of {}", lines.line(), name));
    if (std::ranges::count(header, column) > 1 || column.empty()) {
      throw InputError(fmt::format(
          "line {} of {}: {}. Give every column a name of its own.", lines.line(), name,
          column.empty() ? "a column has no name" : "column " + column + " is named twice"));
    }
  }
  if (file == 0) columns_ = header;
  if (header != columns_) {
    throw InputError(fmt::format("{} has columns {}, but {} has {}. They do not belong together.",
                                 name, fmt::join(header, ", "), files_[0].string(),
                                 fmt::join(columns_, ", ")));
  }
  const std::size_t before = places_.size();
  while (lines.next(cells)) {
    if (cells.size() != columns_.size()) {
      throw InputError(fmt::format("line {} of {} has {} cells, but the header names {} columns.",
                                   lines.line(), name, cells.size(), columns_.size()));
    }
    cells_.insert(cells_.end(), cells.begin(), cells.end());
    places_.push_back({file, lines.line()});
  }
  if (places_.size() == before)
    throw InputError(fmt::format("{} has a header, but no line of samples.", name));
}

std::size_t CsvTable::index_of(const std::string& column) const {
  const auto found = std::ranges::find(columns_, column);
  if (found != columns_.end()) return static_cast<std::size_t>(found - columns_.begin());
  const std::vector<std::string_view> known(columns_.begin(), columns_.end());
  const auto near = nearest_name(column, known);
  throw InputError(fmt::format("{} has no column {}. {}It has {}.", name_, column,
                               near ? fmt::format("Did you mean {}? ", *near) : "",
                               fmt::join(columns_, ", ")));
}

std::string_view CsvTable::cell(std::int64_t row, std::size_t column) const {
  return cells_[static_cast<std::size_t>(row) * columns_.size() + column];
}

std::string CsvTable::where(std::int64_t row) const {
  const Place& place = places_[static_cast<std::size_t>(row)];
  return fmt::format("line {} of {}", place.line, files_[place.file].string());
}

bool CsvTable::is_number(std::string_view text) { return number_of(text).has_value(); }

bool CsvTable::is_numeric(const std::string& column) const {
  const std::size_t c = index_of(column);
  for (std::int64_t row = 0; row < rows(); ++row) {
    if (!is_number(cell(row, c))) return false;
  }
  return true;
}

std::vector<std::string> CsvTable::labels(const std::string& column) const {
  const std::size_t c = index_of(column);
  std::set<std::string_view> found;
  std::optional<std::int64_t> number, word;  // the first row of each
  for (std::int64_t row = 0; row < rows(); ++row) {
    const std::string_view text = cell(row, c);
    if (text.empty()) {
      throw InputError(
          fmt::format("{}: column {} is empty. Repair the line.", where(row), columns_[c]));
    }
    if (!found.insert(text).second) continue;
    expect_name(text, where(row));
    auto& first = number_of(text) ? number : word;
    if (!first) first = row;
  }
  if (number && word) {
    throw InputError(fmt::format(
        "{}: column {} is \"{}\", no number as in {}. Repair the line, or, if these are the names "
        "of classes, list them all in data.class_names.",
        where(*word), columns_[c], cell(*word, c), where(*number)));
  }
  return {found.begin(), found.end()};
}

std::shared_ptr<const StoredArray> CsvTable::numbers(const std::vector<std::string>& columns,
                                                     bool flat) const {
  std::vector<std::size_t> chosen;
  for (const std::string& column : columns) chosen.push_back(index_of(column));
  std::vector<double> numbers;
  numbers.reserve(static_cast<std::size_t>(rows()) * chosen.size());
  for (std::int64_t row = 0; row < rows(); ++row) {
    for (const std::size_t column : chosen) {
      const std::string_view text = cell(row, column);
      const auto number = number_of(text);
      if (!number) {
        throw InputError(
            fmt::format("{}: column {} is {}, not a finite number. Repair the line{}.", where(row),
                        columns_[column], text.empty() ? "empty" : fmt::format("\"{}\"", text),
                        flat ? "" : ", or leave the column out (in a deck: data.feature_columns)"));
      }
      numbers.push_back(*number);
    }
  }
  const Shape shape =
      flat && columns.size() == 1 ? Shape{rows()} : Shape{rows(), std::ssize(columns)};
  return std::make_shared<const NumbersInMemory>(
      std::move(numbers), shape,
      fmt::format("column{} {} of {}, numbers {}", columns.size() == 1 ? "" : "s",
                  fmt::join(columns, ", "), name_, to_string(shape)));
}

std::shared_ptr<const StoredArray> CsvTable::codes(const std::string& column,
                                                   const std::vector<std::string>& labels) const {
  const std::size_t c = index_of(column);
  std::vector<double> codes;
  for (std::int64_t row = 0; row < rows(); ++row) {
    const auto found = std::ranges::find(labels, cell(row, c));
    if (found == labels.end()) {
      expect_name(cell(row, c), where(row));
      throw InputError(
          fmt::format("{}: {} is \"{}\", which is none of the classes {}. Repair the line, or "
                      "correct data.class_names.",
                      where(row), column, cell(row, c), fmt::join(labels, ", ")));
    }
    codes.push_back(static_cast<double>(found - labels.begin()));
  }
  return std::make_shared<const NumbersInMemory>(
      std::move(codes), Shape{rows()},
      fmt::format("column {} of {}, classes [{}]", column, name_, rows()));
}

}  // namespace lockstep
