#include <lockstep/deck/did_you_mean.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lockstep {
namespace {

char folded(char c) {
  if (c == '-') return '_';
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Optimal string alignment distance: Levenshtein's distance with a swap of neighbours as one edit.
// After Damerau, "A technique for computer detection and correction of spelling errors", CACM 7(3),
// 1964.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
          folded(a[i - 2]) == folded(b[j - 1])) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string_view> nearest_name(std::string_view given,
                                             std::span<const std::string_view> known) {
  std::optional<std::string_view> nearest;
  std::size_t fewest = 0;
  for (const auto name : known) {
    const std::size_t limit = std::max<std::size_t>(1, name.size() / 3);
    // The lengths alone can rule a name out; this bounds the work for absurd input.
    if (given.size() > name.size() + limit || name.size() > given.size() + limit) continue;
    const std::size_t count = edits(given, name);
    if (count <= limit && (!nearest || count < fewest)) {
      nearest = name;
      fewest = count;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view given, std::span<const std::string_view> known) {
  if (known.empty()) return "None are known.";
  if (const auto name = nearest_name(given, known)) return fmt::format("Did you mean {}?", *name);
  return fmt::format("Known are: {}.", fmt::join(known, ", "));
}

}  // namespace lockstep
