#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Splits a text of comma-separated values (RFC 4180), line by line.
class CsvLines {
 public:
  /// `text` must outlive the cells. `unquoted` stores cells whose quotes were removed. `name` names
  /// the file in messages.
  CsvLines(std::string_view text, std::deque<std::string>& unquoted, std::string name);

  /// The cells of the next non-empty line, trimmed; false at the end. Throws InputError if a quote
  /// does not end, or is followed by a character other than a separator.
  bool next(std::vector<std::string_view>& cells);

  /// The separator of cells: a comma, a semicolon or a tab.
  [[nodiscard]] char separator() const noexcept { return separator_; }

  /// Number of the line that next() returned last, from 1.
  [[nodiscard]] std::int64_t line() const noexcept { return line_; }

 private:
  std::string_view quoted();
  std::string_view plain();
  [[noreturn]] void refuse(const std::string& why) const;

  std::string_view rest_;
  std::deque<std::string>& unquoted_;
  std::string name_;
  char separator_;
  std::int64_t line_ = 0, next_line_ = 1;
};

}  // namespace lockstep
