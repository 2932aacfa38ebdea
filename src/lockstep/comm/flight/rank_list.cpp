#include <lockstep/comm/flight/rank_list.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

struct Run {
  int first, last, step;
};

/// Runs with equal steps. A run of two ranks only if `pairs` and they are neighbours: "0,5" stays
/// as it is.
std::vector<Run> runs_of(std::span<const int> ranks) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    const int step = end < ranks.size() ? ranks[end] - ranks[i] : 0;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == step) ++end;
    if (end - i == 2 && step != 1) end = i + 1;
    runs.push_back({ranks[i], ranks[end - 1], end - i > 1 ? step : 0});
    i = end;
  }
  return runs;
}

std::string joined(std::span<const int> ranks, const char* separator) {
  std::string text;
  for (const auto& [first, last, step] : runs_of(ranks)) {
    if (!text.empty()) text += separator;
    text += std::to_string(first);
    if (step != 0) text += fmt::format("-{}", last);
    if (step != 0 && step != 1) text += fmt::format("/{}", step);
  }
  return text;
}

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text), at_(text.data()) {}

  [[nodiscard]] int number() {
    int value = 0;
    const auto [next, error] = std::from_chars(at_, end(), value);
    if (error != std::errc()) fail();
    at_ = next;
    return value;
  }
  [[nodiscard]] bool take(char c) {
    if (at_ == end() || *at_ != c) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] bool done() const { return at_ == end(); }
  [[noreturn]] void fail() const {
    throw InputError(fmt::format("\"{}\" is not a list of ranks like 0-3,8", text_));
  }

 private:
  [[nodiscard]] const char* end() const { return text_.data() + text_.size(); }
  const std::string& text_;
  const char* at_;
};

}  // namespace

std::string format_rank_list(std::span<const int> ranks) { return joined(ranks, ","); }

std::vector<int> parse_rank_list(const std::string& text) {
  constexpr int most = 1 << 24;  // a damaged text must not fill the memory
  std::vector<int> ranks;
  Reader reader(text);
  do {
    const int first = reader.number();
    const int last = reader.take('-') ? reader.number() : first;
    const int step = reader.take('/') ? reader.number() : 1;
    if (first < 0 || last < 0 || step == 0 || (last - first) % step != 0 ||
        (last - first) / step < 0 || (last - first) / step > most ||
        ranks.size() > std::size_t{most}) {
      reader.fail();
    }
    for (int i = 0; i <= (last - first) / step; ++i) ranks.push_back(first + i * step);
  } while (reader.take(','));
  if (!reader.done()) reader.fail();
  return ranks;
}

std::string ranks_in_words(std::span<const int> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + joined(ranks, ", ");
}

}  // namespace lockstep
