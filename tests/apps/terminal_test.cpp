// The user's view of a training: on a terminal a progress line redrawn in place, elsewhere plain
// lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <apps/small_run.hpp>

namespace lockstep::test {
namespace {

/// The screen and the history of a terminal after some output.
class Screen {
 public:
  Screen(const std::string& written, std::size_t columns) : columns_(columns) {
    for (std::size_t at = 0; at < written.size(); ++at) {
      if (written.compare(at, erase.size(), erase) == 0) {
        row().resize(column_);
        at += erase.size() - 1;
      } else if (written[at] == '\r') {
        column_ = 0;
      } else if (written[at] == '\n') {
        next_row(false);
      } else {
        put(written[at]);
      }
    }
  }

  /// Rows separated only by the terminal's width are one line.
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> joined;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (i > 0 && wrapped_[i]) {
        joined.back() += rows_[i];
      } else {
        joined.push_back(rows_[i]);
      }
    }
    return joined;
  }

 private:
  static constexpr std::string_view erase = "\033[K";

  std::string& row() { return rows_.back(); }
  void next_row(bool wrapped) {
    rows_.emplace_back();
    wrapped_.push_back(wrapped);
    column_ = wrapped ? 0 : column_;  // a bare line feed moves straight down
    row().resize(column_, ' ');
  }
  void put(char c) {
    if (column_ == columns_) next_row(true);
    if (row().size() <= column_) row().resize(column_ + 1, ' ');
    row()[column_++] = c;
  }

  std::size_t columns_, column_ = 0;
  std::vector<std::string> rows_{""};
  std::vector<bool> wrapped_{false};
};

std::vector<std::string> without_redrawn_lines(const std::string& log) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < log.size();) {
    const auto end = log.find('\n', begin);
    const std::string line = log.substr(begin, end - begin);
    begin = end + 1;
    // "2026-01-01 00:00:00.000 info text"; a message of several lines has one such beginning.
    const auto text = line.find(" info ");
    const std::string said = text == std::string::npos ? line : line.substr(text + 6);
    if (said.find(" s left") == std::string::npos) lines.push_back(said);
  }
  return lines;
}

class Terminal : public testing::TestWithParam<int> {};

TEST_P(Terminal, ProgressIsRedrawnInPlaceAndEveryOtherLineStandsWhole) {
  const ScratchFolder scratch;
  std::vector<std::string> command{built("apps/classify")};
  const auto arguments = small_run(scratch.file("run"));
  command.insert(command.end(), arguments.begin(), arguments.end());
  const Finished finished = run_on_terminal(command, GetParam());
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("\r\033[Kepoch 1/4  step 2/40")) << finished.output;
  EXPECT_TRUE(finished.says("\r\033[Kepoch 4/4  step 40/40")) << finished.output;

  auto seen = Screen(finished.output, static_cast<std::size_t>(GetParam())).lines();
  ASSERT_EQ(seen.back(), "") << "the shell's prompt begins at the left";
  seen.pop_back();
  EXPECT_EQ(seen, without_redrawn_lines(read_file(scratch.file("run/log.txt")))) << finished.output;
}

INSTANTIATE_TEST_SUITE_P(Columns, Terminal, testing::Values(28, 40, 80, 200));

TEST(NoTerminal, ProgressIsPlainLines) {
  for (const int ranks : {1, 2}) {
    const ScratchFolder scratch;
    const Finished finished = classify(ranks, small_run(scratch.file("run")));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_TRUE(finished.says("\nepoch 1/4  step 2/40")) << finished.output;
    EXPECT_EQ(finished.output.find_first_of("\r\033"), std::string::npos) << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
