#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <lockstep/base/error.hpp>
#include <lockstep/train/report/metrics_reader.hpp>
#include <support/process.hpp>
#include <vector>

namespace lockstep::train {
namespace {

std::string line_of(std::int64_t step) {
  return R"({"kind":"step","step":)" + std::to_string(step) +
         R"(,"epoch":1,"total_steps":50,"loss":0.5})";
}

class MetricsReaderTest : public testing::Test {
 protected:
  void append(const std::string& text) const { std::ofstream(file_, std::ios::app) << text; }
  /// Steps of the rows that are new; 0 stands for a file that was replaced.
  std::vector<std::int64_t> read() {
    std::vector<std::int64_t> steps;
    reader_.read(
        [&](const MetricsRow& row) {
          EXPECT_EQ(row.total_steps, 50);
          steps.push_back(row.step);
        },
        [&] { steps.push_back(0); });
    return steps;
  }

  test::ScratchFolder scratch_;
  std::string file_ = scratch_.file("metrics.jsonl");
  MetricsReader reader_{file_};
};

using Steps = std::vector<std::int64_t>;

TEST_F(MetricsReaderTest, RowsComeOnceAndALineOnlyWhenItIsWhole) {
  EXPECT_EQ(read(), Steps{});  // no file yet
  append(line_of(1) + "\n" + line_of(2).substr(0, 20));
  EXPECT_EQ(read(), Steps{1});
  EXPECT_TRUE(reader_.has_unfinished_line());
  append(line_of(2).substr(20));
  EXPECT_EQ(read(), Steps{});  // its end may still be missing
  append("\n" + line_of(3) + "\n");
  EXPECT_EQ(read(), (Steps{2, 3}));
  EXPECT_EQ(read(), Steps{});
  EXPECT_FALSE(reader_.has_unfinished_line());
  EXPECT_EQ(reader_.rows(), 3);
  EXPECT_EQ(reader_.invalid_lines(), 0);
}

TEST_F(MetricsReaderTest, ReplacedFileIsReadAgain) {
  append(line_of(1) + "\n" + line_of(2) + "\n");
  EXPECT_EQ(read(), (Steps{1, 2}));
  std::ofstream(file_ + ".new") << line_of(1) << "\n" << line_of(7) << "\n" << line_of(8) << "\n";
  std::filesystem::rename(file_ + ".new", file_);
  EXPECT_EQ(read(), (Steps{0, 1, 7, 8}));
  std::filesystem::resize_file(file_, 0);
  EXPECT_EQ(read(), Steps{0});
}

TEST_F(MetricsReaderTest, LinesThatAreNoRowsAreCounted) {
  append(line_of(1) + "\nnonsense\n{}\n" + line_of(2) + "\n");
  EXPECT_EQ(read(), (Steps{1, 2}));
  EXPECT_EQ(reader_.invalid_lines(), 2);
  EXPECT_EQ(reader_.first_invalid_line(), 2);
}

TEST_F(MetricsReaderTest, FolderInItsPlaceIsAnError) {
  std::filesystem::create_directory(file_);
  EXPECT_THROW(read(), InputError);
}

}  // namespace
}  // namespace lockstep::train
