#include <lockstep/data/files/csv_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <type_traits>

#include <lockstep/base/error.hpp>
#include <lockstep/base/some_of.hpp>
#include <lockstep/base/utf8.hpp>
#include <lockstep/data/files/byte_source.hpp>
#include <lockstep/data/files/csv_lines.hpp>
#include <lockstep/data/files/csv_number.hpp>
#include <lockstep/deck/did_you_mean.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Written for a missing value by pandas, R, spreadsheets and others. No table of classes means
/// them as names, but for such as a country's code, which data.class_names then lists.
constexpr std::array<std::string_view, 11> missing_words{
    "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "NULL", "null", "?"};

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

  /// From 2^53 on two integers may share one double; from 2^63 on there is no i64.
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

/// Names of columns and classes go into decks and checkpoints, which are UTF-8 without NUL. Other
/// names could be written there, but not read again.
void expect_name(std::string_view name, const std::string& where) {
  for_each_utf8_character(name, [&](const Utf8Character& character, std::size_t at) {
    if (character.bytes == 0) {
      throw InputError(fmt::format(
          "{}: byte {:#04x} is not UTF-8 text. Save the table as UTF-8 (iconv -f latin1 -t utf-8).",
          where, static_cast<unsigned char>(name[at])));
    }
    if (character.code == 0) {
      throw InputError(
          fmt::format("{}: a name holds a NUL byte. Save the table as UTF-8 text.", where));
    }
  });
}

bool is_any_number(std::string_view cell) { return csv_number(cell) || csv_number(cell, ','); }

/// Whether the supposed header is more likely the first sample; `next` is the following line.
bool looks_like_samples(std::span<const std::string> names,
                        std::span<const std::string_view> next) {
  if (std::ranges::all_of(names, is_any_number)) return true;
  return std::ranges::any_of(names, is_any_number) &&
         std::ranges::equal(names, next, {}, is_any_number, is_any_number);
}

/// numpy.savetxt writes a header as a comment.
bool remove_comment_sign(std::string& first_name) {
  if (!first_name.starts_with("# ")) return false;
  first_name.erase(0, std::min(first_name.find_first_not_of(' ', 1), first_name.size()));
  return true;
}

}  // namespace

CsvTable::CsvTable(const std::vector<fs::path>& files, CsvHeader header, const UsedColumns& used)
    : files_(files), name_(files.at(0).string()), has_header_(header != CsvHeader::no) {
  if (files.size() > 1) name_ += fmt::format(" and {} more", files.size() - 1);
  for (std::size_t file = 0; file < files.size(); ++file) add(file, header);
  find_decimal_sign(used);
}

void CsvTable::add(std::size_t file, CsvHeader header) {
  const std::string name = files_[file].string();
  const std::string& text = texts_.emplace_back(text_of(files_[file]));
  expect_no_utf16(text, name);
  CsvLines lines(text, texts_, name);
  semicolons_ = semicolons_ && lines.separator() == ';';
  std::vector<std::string_view> cells;
  if (!lines.next(cells)) {
    throw InputError(
        fmt::format("{} is empty{}.", name, header == CsvHeader::no ? "" : ": it needs a header"));
  }
  const std::int64_t first_line = lines.line();
  const std::string where = fmt::format("line {} of {}", first_line, name);
  const std::size_t before = places_.size();
  if (header == CsvHeader::no) {
    std::vector<std::string> names;
    for (std::size_t c = 1; c <= cells.size(); ++c) names.push_back(fmt::format("column_{}", c));
    if (file == 0) take_names(file, names, where);
    add_row(cells, {file, first_line});
  } else {
    std::vector<std::string> names(cells.begin(), cells.end());
    const bool marked = remove_comment_sign(names[0]);
    if (!lines.next(cells)) cells.clear();
    if (header == CsvHeader::automatic && !marked && looks_like_samples(names, cells)) {
      throw InputError(fmt::format(
          "{}: the header should name the columns, but {} looks like a line of samples. "
          "In a deck, set data.header = false if it is one, or data.header = true if these are "
          "names (\"auto\" asks); elsewhere, write the header.",
          where, some_of(names)));
    }
    take_names(file, names, where);
    if (!cells.empty()) add_row(cells, {file, lines.line()});
  }
  while (lines.next(cells)) add_row(cells, {file, lines.line()});
  if (places_.size() == before)
    throw InputError(fmt::format("{} has a header, but no line of samples.", name));
}

void CsvTable::take_names(std::size_t file, const std::vector<std::string>& names,
                          const std::string& where) {
  if (file > 0 && names != columns_) {
    throw InputError(fmt::format("{} has columns {}, but {} has {}. The columns must be the same.",
                                 files_[file].string(), some_of(names), files_[0].string(),
                                 some_of(columns_)));
  }
  if (file > 0) return;
  for (const std::string& name : names) {
    expect_name(name, where);
    if (name.empty()) {
      throw InputError(fmt::format(
          "{}: a column has no name. Give every column a name of its own{}.", where,
          &name == &names[0] ? "; the index of a pandas table is left out with to_csv(index=False)"
                             : ""));
    }
    if (!places_of_columns_.emplace(name, columns_.size()).second) {
      throw InputError(fmt::format(
          "{}: column {} is named twice. Give every column a name of its own.", where, name));
    }
    columns_.push_back(name);
  }
}

void CsvTable::add_row(const std::vector<std::string_view>& cells, Place place) {
  if (cells.size() != columns_.size()) {
    const auto wanted = columns_.size();
    throw InputError(fmt::format(
        "{} has {} cell{}, but {}.", where(place), cells.size(), cells.size() == 1 ? "" : "s",
        has_header_
            ? fmt::format("the header names {} column{}", wanted, wanted == 1 ? "" : "s")
            : fmt::format("{}, the first of the table, has {}", where(places_.front()), wanted)));
  }
  cells_.insert(cells_.end(), cells.begin(), cells.end());
  places_.push_back(place);
}

void CsvTable::find_decimal_sign(const UsedColumns& used) {
  if (!semicolons_) return;
  std::vector<bool> is_used(columns_.size(), used.names.empty());
  is_used.back() = is_used.back() || used.and_last;
  for (const std::string& column : used.names) {
    const auto found = places_of_columns_.find(column);  // the reader reports its absence
    if (found != places_of_columns_.end()) is_used[found->second] = true;
  }
  const auto first_with = [&](char sign) {
    std::size_t at = 0;
    while (at < cells_.size() &&
           !(is_used[at % columns_.size()] && cells_[at].find(sign) != std::string_view::npos &&
             csv_number(cells_[at], sign)))
      ++at;
    return at;
  };
  const std::size_t comma = first_with(',');
  if (comma == cells_.size()) return;
  decimal_ = ',';
  const std::size_t point = first_with('.');
  if (point == cells_.size()) return;
  const auto place = [&](std::size_t at) { return where(places_[at / columns_.size()]); };
  throw InputError(
      fmt::format("{} has \"{}\", a number with a decimal comma, but {} has \"{}\", one with a "
                  "point. Write all with one of the two.",
                  place(comma), cells_[comma], place(point), cells_[point]));
}

std::optional<double> CsvTable::number(std::string_view cell) const {
  return csv_number(cell, decimal_);
}

std::size_t CsvTable::index_of(const std::string& column) const {
  const auto found = places_of_columns_.find(column);
  if (found != places_of_columns_.end()) return found->second;
  const std::vector<std::string_view> known(columns_.begin(), columns_.end());
  const auto near = nearest_name(column, known);
  throw InputError(fmt::format("{} has no column {}. {}It has {}.", name_, column,
                               near ? fmt::format("Did you mean {}? ", *near) : "",
                               some_of(columns_)) +
                   (columns_.size() == 1 ? " Separate cells by commas, semicolons or tabs." : ""));
}

std::string_view CsvTable::cell(std::int64_t row, std::size_t column) const {
  return cells_[static_cast<std::size_t>(row) * columns_.size() + column];
}

std::string CsvTable::where(std::int64_t row) const {
  return where(places_[static_cast<std::size_t>(row)]);
}

std::string CsvTable::where(const Place& place) const {
  return fmt::format("line {} of {}", place.line, files_[place.file].string());
}

bool CsvTable::is_number(std::string_view text) { return csv_number(text).has_value(); }

bool CsvTable::is_numeric(const std::string& column) const {
  const std::size_t c = index_of(column);
  for (std::int64_t row = 0; row < rows(); ++row) {
    if (!number(cell(row, c))) return false;
  }
  return true;
}

std::vector<std::string> CsvTable::labels(const std::string& column) const {
  const std::size_t c = index_of(column);
  std::set<std::string_view> found;
  std::optional<std::int64_t> first_number, first_word, missing;  // number of rows
  for (std::int64_t row = 0; row < rows(); ++row) {
    const std::string_view text = cell(row, c);
    if (text.empty()) {
      throw InputError(
          fmt::format("{}: column {} is empty. Repair the line.", where(row), columns_[c]));
    }
    if (!found.insert(text).second) continue;
    expect_name(text, where(row));
    if (!missing && std::ranges::find(missing_words, text) != missing_words.end()) missing = row;
    auto& first = number(text) ? first_number : first_word;
    if (!first) first = row;
  }
  if (first_number && first_word) {
    throw InputError(
        fmt::format("{}: column {} is \"{}\", but {} has a number. Repair the line, or, if these "
                    "are the names of classes, list them all in data.class_names.",
                    where(*first_word), columns_[c], cell(*first_word, c), where(*first_number)));
  }
  if (missing) {
    throw InputError(
        fmt::format("{}: column {} is \"{}\", a word for a missing value. Repair the line, or, if "
                    "it is the name of a class, list all names in data.class_names.",
                    where(*missing), columns_[c], cell(*missing, c)));
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
      const auto found = number(text);
      if (!found) {
        throw InputError(
            fmt::format("{}: column {} is {}, not a finite number. Repair the line{}.", where(row),
                        columns_[column], text.empty() ? "empty" : fmt::format("\"{}\"", text),
                        flat ? "" : ", or leave the column out (in a deck: data.feature_columns)"));
      }
      numbers.push_back(*found);
    }
  }
  const Shape shape =
      flat && columns.size() == 1 ? Shape{rows()} : Shape{rows(), std::ssize(columns)};
  return std::make_shared<const NumbersInMemory>(
      std::move(numbers), shape,
      fmt::format("column{} {} of {}, numbers {}", columns.size() == 1 ? "" : "s", some_of(columns),
                  name_, to_string(shape)));
}

std::shared_ptr<const StoredArray> CsvTable::codes(const std::string& column,
                                                   const std::vector<std::string>& labels) const {
  const std::size_t c = index_of(column);
  std::unordered_map<std::string_view, std::size_t> places;
  for (const std::string& label : labels) {
    if (places.emplace(label, places.size()).second) continue;
    throw InputError(
        fmt::format("the class names have \"{}\" twice. Name each class once.", shortened(label)));
  }
  std::vector<double> codes;
  for (std::int64_t row = 0; row < rows(); ++row) {
    const auto found = places.find(cell(row, c));
    if (found == places.end()) {
      expect_name(cell(row, c), where(row));
      throw InputError(
          fmt::format("{}: {} is \"{}\", not one of the classes {}. Repair the line, or correct "
                      "data.class_names.",
                      where(row), column, cell(row, c), some_of(labels)));
    }
    codes.push_back(static_cast<double>(found->second));
  }
  return std::make_shared<const NumbersInMemory>(
      std::move(codes), Shape{rows()},
      fmt::format("column {} of {}, classes [{}]", column, name_, rows()));
}

}  // namespace lockstep
