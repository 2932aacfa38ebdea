#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <lockstep/train/report/report.hpp>
#include <sstream>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

std::vector<MetricsRow> two_epochs() {
  std::vector<MetricsRow> rows;
  for (const std::int64_t epoch : {1, 2}) {
    MetricsRow row{.kind = "epoch",
                   .step = 10 * epoch,
                   .epoch = epoch,
                   .loss = 1.0 / static_cast<double>(epoch)};
    row.samples_per_s = 50000;
    row.has_times = true;
    row.times.compute.mean = 3;
    row.times.communication.mean = 1;
    rows.push_back(row);
    rows.push_back({.kind = "eval",
                    .step = 10 * epoch,
                    .epoch = epoch,
                    .loss = 0.75,
                    .metrics = {{"accuracy", 0.625}}});
  }
  return rows;
}

TEST(Report, TableHasALineAnEpochWithLossAccuracySpeedAndTimeSplit) {
  const std::string table = report_table(two_epochs());
  for (const char* part : {"train loss", "0.5000", "0.7500", "0.6250", "50000", " 75 ", " 25 "}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
}

TEST(Report, EpochsStandBesideTheSetThatTheyAreJudgedBy) {
  auto rows = two_epochs();
  for (auto& row : rows) {
    if (row.kind == "eval") row.set = "validation";
  }
  rows.push_back({.kind = "eval", .step = 20, .epoch = 2, .loss = 0.9, .set = "test"});
  const std::string table = report_table(rows);
  EXPECT_NE(table.find("validation loss"), std::string::npos) << table;
  EXPECT_NE(table.find("0.7500"), std::string::npos) << table;
  EXPECT_EQ(table.find("0.9000"), std::string::npos) << table;
}

TEST(Report, AMetricThatAnEpochLacksIsADashUnderItsName) {
  auto rows = two_epochs();
  rows.at(1).metrics = {{"top_5", 0.875}, {"accuracy", 0.625}};
  rows.at(3).metrics = {{"accuracy", 0.6875}, {"top_3", 0.8125}};
  std::istringstream table(report_table(rows));
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    lines.emplace_back(std::istream_iterator<std::string>(words),
                       std::istream_iterator<std::string>());
  }
  ASSERT_EQ(lines.size(), 4U) << table.str();
  const auto metrics = [](const std::vector<std::string>& line, std::size_t begin) {
    return std::vector(line.begin() + static_cast<std::ptrdiff_t>(begin),
                       line.begin() + static_cast<std::ptrdiff_t>(begin) + 3);
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(metrics(lines[1], 5), (Words{"top_5", "accuracy", "top_3"})) << table.str();
  EXPECT_EQ(metrics(lines[2], 3), (Words{"0.8750", "0.6250", "-"})) << table.str();
  EXPECT_EQ(metrics(lines[3], 3), (Words{"-", "0.6875", "0.8125"})) << table.str();
}

TEST(Report, BytesSentStandBesideThoseTheyReplace) {
  EXPECT_EQ(
      traffic_in_words({"bf16_compress", {12'300'000, 24'600'000}}),
      "bf16_compress: each rank sent 12.30 MB, 2.0 times less than the 24.60 MB of all_reduce");
  EXPECT_EQ(traffic_in_words({"post_local_sgd from step 0", {0, 24'600'000}}),
            "post_local_sgd from step 0: each rank sent none of the 24.60 MB of all_reduce");
}

TEST(Report, CurvesAreAnSvgWithAllFourLines) {
  const test::ScratchFolder scratch;
  const std::string svg = scratch.file("curves.svg");
  ASSERT_EQ(draw_curves(two_epochs(), svg), svg);
  const std::string text = test::read_file(svg);
  EXPECT_NE(text.find("<svg"), std::string::npos);
  EXPECT_NE(text.find("test accuracy"), std::string::npos);
  EXPECT_NE(text.find("training, epoch mean"), std::string::npos);
}

TEST(Report, NoNameOfAFolderOrAMetricIsACommandOfGnuplot) {
  const test::ScratchFolder scratch;
  const std::string sign = scratch.file("sign");
  auto rows = two_epochs();
  for (auto& row : rows) {
    if (row.kind == "eval")
      row.metrics = {{"it's_\n'; system 'touch " + sign + "'\nsystem 'touch " + sign + "' #", 0.5}};
  }
  for (const char* name :
       {"bob's run", R"(a "b" `c` $d)", "x'; system 'touch sign'; y='", "a\nb"}) {
    const std::filesystem::path folder = scratch.file(name);
    std::filesystem::create_directory(folder);
    EXPECT_EQ(draw_curves(rows, folder / "curves.svg"), folder / "curves.svg");
    EXPECT_NE(test::read_file(folder / "curves.svg").find("test it's_"), std::string::npos) << name;
    std::filesystem::remove_all(folder);
  }
  EXPECT_TRUE(std::filesystem::is_empty(std::filesystem::path(sign).parent_path()));
}

TEST(Report, CurvesOfARunThatIsNotJudgedAreThoseOfItsTraining) {
  const test::ScratchFolder scratch;
  const std::string svg = scratch.file("curves.svg");
  auto rows = two_epochs();
  std::erase_if(rows, [](const MetricsRow& row) { return row.kind == "eval"; });
  ASSERT_EQ(draw_curves(rows, svg), svg);
  const std::string text = test::read_file(svg);
  EXPECT_NE(text.find("training, epoch mean"), std::string::npos);
  EXPECT_EQ(text.find("test"), std::string::npos);
}

TEST(Report, AGnuplotThatHangsIsEndedAfterItsTime) {
  const test::ScratchFolder scratch, programs;
  const std::string gnuplot = programs.write("gnuplot", "#!/bin/sh\nexec sleep 1000\n");
  std::filesystem::permissions(gnuplot, std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  setenv("PATH", (programs.path() + ":" + path).c_str(), 1);
  const std::string told = draw_curves(two_epochs(), scratch.file("curves.svg"), 0.5);
  setenv("PATH", path.c_str(), 1);
  EXPECT_NE(told.find("gnuplot did not end within 0.5 s"), std::string::npos) << told;
}

TEST(Report, CurvesThatAreALinkElsewhereAreReplaced) {
  const test::ScratchFolder scratch, elsewhere;
  const std::string svg = scratch.file("curves.svg");
  const std::string mine = elsewhere.write("mine", "untouched"),
                    more = elsewhere.write("more", "too");
  std::filesystem::create_symlink(mine, svg);
  std::filesystem::create_symlink(more, scratch.file("curves.gp"));
  ASSERT_EQ(draw_curves(two_epochs(), svg), svg);
  EXPECT_NE(test::read_file(svg).find("<svg"), std::string::npos);
  EXPECT_EQ(test::read_file(mine) + test::read_file(more), "untouchedtoo");
}

TEST(Report, WhyThereAreNoCurvesIsSaidAsItIs) {
  const test::ScratchFolder scratch;
  const std::string svg = scratch.file("curves.svg");
  const auto says = [&](const auto& rows, const char* why) {
    const std::string told = draw_curves(rows, svg);
    return told.find(why) == std::string::npos ? testing::AssertionFailure() << told
                                               : testing::AssertionSuccess();
  };
  EXPECT_TRUE(says(std::vector<MetricsRow>{}, "nothing to draw"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  std::filesystem::create_directory(svg);
  EXPECT_TRUE(says(two_epochs(), "gnuplot failed"));
  const std::string path = std::getenv("PATH");
  setenv("PATH", scratch.path().c_str(), 1);
  EXPECT_TRUE(says(two_epochs(), "gnuplot could not be run"));
  setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace lockstep::train
