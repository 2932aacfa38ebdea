#include <lockstep/data/files/csv_lines.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// The separator that the header has most of outside quotes; a comma in a draw.
char separator_of(std::string_view text) {
  constexpr std::string_view candidates = ",;\t";
  std::array<std::size_t, candidates.size()> counts{};
  bool in_quotes = false, cell_begins = true;  // a quote inside a cell is an ordinary character
  for (const char c : text) {
    if (c == '"' && cell_begins) in_quotes = !in_quotes;
    if (in_quotes || c == '"' || c == ' ') continue;
    if (c == '\r' || c == '\n') break;
    const auto candidate = candidates.find(c);
    cell_begins = candidate != std::string_view::npos;
    if (cell_begins) ++counts[candidate];
  }
  const auto* const most = std::ranges::max_element(counts);
  return candidates[static_cast<std::size_t>(most - counts.begin())];
}

std::string_view trimmed(std::string_view cell) {
  const auto first = cell.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return cell.substr(first, cell.find_last_not_of(' ') - first + 1);
}

}  // namespace

CsvLines::CsvLines(std::string_view text, std::deque<std::string>& unquoted, std::string name)
    : rest_(text.starts_with(byte_order_mark) ? text.substr(byte_order_mark.size()) : text),
      unquoted_(unquoted),
      name_(std::move(name)),
      separator_(separator_of(rest_)) {}

void CsvLines::refuse(const std::string& why) const {
  throw InputError(fmt::format("line {} of {}: {}", line_, name_, why));
}

std::string_view CsvLines::quoted() {
  std::string cell;
  for (std::size_t at = 1;; ++at) {
    const auto quote = rest_.find('"', at);
    if (quote == std::string_view::npos) refuse("a quote that begins here does not end.");
    cell += rest_.substr(at, quote - at);
    at = quote + 1;
    if (at < rest_.size() && rest_[at] == '"') {
      cell += '"';
      continue;
    }
    next_line_ += std::ranges::count(rest_.substr(0, at), '\n');
    rest_.remove_prefix(at);
    break;
  }
  rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
  if (!rest_.empty() && rest_[0] != separator_ && rest_[0] != '\r' && rest_[0] != '\n')
    refuse(fmt::format("a quoted cell is followed by \"{}\" instead of a separator.", rest_[0]));
  return unquoted_.emplace_back(std::move(cell));
}

std::string_view CsvLines::plain() {
  const char ends[] = {separator_, '\r', '\n'};
  const std::size_t size = std::min(rest_.find_first_of(std::string_view(ends, 3)), rest_.size());
  const std::string_view cell = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return trimmed(cell);
}

bool CsvLines::next(std::vector<std::string_view>& cells) {
  const auto end_line = [&] {
    if (rest_.starts_with('\r')) rest_.remove_prefix(1);
    if (rest_.starts_with('\n')) rest_.remove_prefix(1);
    ++next_line_;
  };
  while (!rest_.empty() && (rest_[0] == '\r' || rest_[0] == '\n')) end_line();
  cells.clear();
  if (rest_.empty()) return false;
  line_ = next_line_;
  while (true) {
    const auto blanks = std::min(rest_.find_first_not_of(' '), rest_.size());
    const bool in_quotes = blanks < rest_.size() && rest_[blanks] == '"';
    if (in_quotes) rest_.remove_prefix(blanks);
    cells.push_back(in_quotes ? quoted() : plain());
    if (rest_.empty() || rest_[0] != separator_) break;
    rest_.remove_prefix(1);
  }
  end_line();
  return true;
}

}  // namespace lockstep
