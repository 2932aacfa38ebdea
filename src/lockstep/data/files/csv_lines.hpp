#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Takes a text of comma-separated values (RFC 4180) apart, line by line.
class CsvLines {
 public:
  /// `text` must outlive the cells. Cells whose quotes were taken off are kept in `unquoted`.
  /// `name` stands for the file in messages.
  CsvLines(std::string_view text, std::deque<std::string>& unquoted, std::string name);

  /// The cells of the next line that is not empty, blanks around them cut; false at the end. Throws
  /// InputError if a quote does not end, or is followed by something else than a separator.
  bool next(std::vector<std::string_view>& cells);

  /// What separates cells: a comma, a semicolon or a tab.
  [[nodiscard]] char separator() const noexcept { return separator_; }

  /// Number of the line that next() has given, from 1 on.
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
