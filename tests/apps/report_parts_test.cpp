#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <lockstep/base/error.hpp>
#include <lockstep/train/report/metrics_reader.hpp>
#include <string>

#include <apps/written_run.hpp>
#include <support/message_of.hpp>
#include <support/process.hpp>

#include "report/curves.hpp"
#include "report/run_record.hpp"
#include "report/run_sections.hpp"
#include "watch/plot.hpp"
#include "watch/view.hpp"

namespace lockstep::report {
namespace {

TEST(Thinned, ShortCurveStaysAsItIs) {
  Curve curve;
  for (int i = 0; i < 40; ++i) curve.add(i, i % 7);
  EXPECT_EQ(thinned(curve, 10).y, curve.y);
}

TEST(Thinned, EachColumnKeepsFirstLastSmallestLargestAndTheFirstThatIsNoNumber) {
  Curve curve;
  for (int i = 0; i < 1000; ++i) curve.add(i, 10 + i % 50);
  curve.y[430] = 500;
  curve.y[470] = -500;
  curve.y[480] = curve.y[490] = std::nan("");
  const Curve kept = thinned(curve, 10);  // columns of 99.9 steps
  EXPECT_LE(kept.size(), 10 * 5U);
  std::vector<double> in_column;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(i == 0 || kept.x[i] > kept.x[i - 1]);
    if (kept.x[i] >= 400 && kept.x[i] < 499) in_column.push_back(kept.x[i]);
    const double is = curve.y[static_cast<std::size_t>(kept.x[i])];
    EXPECT_TRUE(kept.y[i] == is || (std::isnan(kept.y[i]) && std::isnan(is)));
  }
  EXPECT_EQ(in_column, (std::vector<double>{400, 430, 470, 480}));
  EXPECT_EQ(kept.x.front(), 0);
  EXPECT_EQ(kept.x.back(), 999);
}

TEST(Thinned, CurveAtOneStepHasAnEnd) {
  Curve curve;
  for (int i = 0; i < 100; ++i) curve.add(3, i);
  const Curve kept = thinned(curve, 10);
  EXPECT_EQ(kept.y, (std::vector<double>{0, 99}));
}

class RunFolderReport : public testing::Test {
 protected:
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::app) << text;
  }
  test::ScratchFolder scratch_;
  std::string folder_ = scratch_.file("run");
};

TEST_F(RunFolderReport, EachStepIsInOneIntervalAndItsPartsMakeTheWhole) {
  test::write_run(folder_, "[train]\nepochs = 2\n");
  const report::Run run = read_whole_run(folder_);
  ASSERT_EQ(run.curves.anatomy.size(), 6U);  // 4, 4 and the 2 that only the epoch's row tells of
  std::int64_t steps = 0;
  for (const Anatomy& one : run.curves.anatomy) {
    steps += one.steps;
    double sum = 0;
    for (const double seconds : one.seconds) sum += seconds;
    EXPECT_NEAR(sum, 0.01 * static_cast<double>(one.steps), 1e-9);
    EXPECT_NEAR(one.seconds[1], 0.003 * static_cast<double>(one.steps), 1e-9);
  }
  EXPECT_EQ(steps, 20);
  for (const double ms : run.curves.step_ms.y) EXPECT_NEAR(ms, 10, 1e-6);
  EXPECT_EQ(run.curves.total_steps, 20);
  ASSERT_NE(run.curves.evaluation("test accuracy"), nullptr);
  EXPECT_EQ(run.curves.evaluation("test accuracy")->y, (std::vector<double>{0.6, 0.7}));
  EXPECT_EQ(state_of(run.record, 20), RunState::completed);
  EXPECT_EQ(run.record.checkpoints.size(), 1U);
  EXPECT_TRUE(run.record.faults.empty());
}

TEST_F(RunFolderReport, SummaryOfAnEarlierStartIsNotThisOnes) {
  test::write_run(folder_, "");
  append("metrics.jsonl", test::written_row("step", 24, 3, 0.1, 4));
  const report::Run run = read_whole_run(folder_);
  EXPECT_EQ(state_of(run.record, run.curves.last_step), RunState::over);
}

TEST_F(RunFolderReport, EndsOfARunAreDescribed) {
  test::write_run(folder_, "");
  append("elastic.jsonl", R"({"kind":"start","start":1,"ranks":4,"step":0})"
                          "\n"
                          R"({"kind":"end","start":1,"text":"rank 1 was killed","why":"killed"})"
                          "\n");
  EXPECT_EQ(state_of(read_run(folder_), 20), RunState::between_starts);
  append("elastic.jsonl", R"({"kind":"over","text":"giving up"})"
                          "\n");
  EXPECT_EQ(read_run(folder_).starts(), 1);
  std::ofstream(file("summary.json")) << R"({"stopped_early":true,"stopped_by":"SIGTERM"})";
  EXPECT_EQ(state_in_words(read_run(folder_), 20), "stopped by SIGTERM");
  std::filesystem::remove(file("summary.json"));
  EXPECT_EQ(state_in_words(read_run(folder_), 20), "giving up");
}

TEST_F(RunFolderReport, DamageIsReportedAndTheRestIsRead) {
  test::write_run(folder_, "[train\nepochs = 2\n");
  append("metrics.jsonl", "nonsense\n{\"kind\":\"step\",\"st");
  append("elastic.jsonl", "no JSON\n{\"kind\":\"start\",\"start\":\"two\",\"step\":5}\n");
  std::ofstream(file("summary.json")) << "{\"completed\":";
  const report::Run run = read_whole_run(folder_);
  EXPECT_EQ(run.curves.last_step, 20);
  std::string all;
  for (const std::string& fault : run.record.faults) all += fault + "\n";
  for (const char* part :
       {"summary.json is damaged", "The deck cannot be read", "1 lines of",
        "1 of 9 lines are not rows", "the first in line 9", "ends in the midst of a line"}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
  }
  ASSERT_EQ(run.record.elastic.size(), 1U);
  EXPECT_EQ(run.record.elastic[0].step, 5);
}

TEST_F(RunFolderReport, FolderWithoutARunNamesThoseInIt) {
  std::filesystem::create_directories(folder_);
  EXPECT_EQ(test::message_of<InputError>([&] { (void)read_run(folder_); }),
            folder_ + " holds no run: neither metrics.jsonl nor deck.toml is in it");
  test::write_run(file("b"), "");
  test::write_run(file("a"), "");
  EXPECT_EQ(test::message_of<InputError>([&] { (void)read_run(folder_); }),
            folder_ + " holds no run; name those in it: a, b");
}

TEST(Plot, DrawsTheCurveBetweenItsExtremes) {
  Curve curve;
  for (int i = 0; i <= 22; ++i) curve.add(i, i);
  curve.add(23, std::nan(""));
  const auto lines = watch::plot(curve, 31, 5);
  EXPECT_EQ(lines, (std::vector<std::string>{"22.0000 |                  ****",  //
                                             "        |           *******",      //
                                             "        |    ********",            //
                                             " 0.0000 |****",                    //
                                             "         step 0              22"}));
}

TEST(Plot, HasNoneWithoutRoomOrPoints) {
  Curve curve;
  curve.add(1, 1);
  EXPECT_TRUE(watch::plot(curve, 80, 10).empty());
  curve.add(2, 1);
  EXPECT_EQ(watch::plot(curve, 80, 10).size(), 10U);  // a flat line
  EXPECT_TRUE(watch::plot(curve, 29, 10).empty());
  EXPECT_TRUE(watch::plot(curve, 80, 3).empty());
}

TEST(Words, DurationsAndCutTexts) {
  EXPECT_EQ(watch::duration_in_words(59.4), "59 s");
  EXPECT_EQ(watch::duration_in_words(200), "3 min 20 s");
  EXPECT_EQ(watch::duration_in_words(7500), "2 h 5 min");
  EXPECT_EQ(watch::duration_in_words(86'400 * 3 + 14'400), "3 d 4 h");
  EXPECT_EQ(watch::duration_in_words(std::nan("")), "for ever");
  EXPECT_EQ(watch::cut("a\nb\033[2J", 80), "a b\\x1b[2J");
  EXPECT_EQ(watch::cut("Größe", 3), "Grö");
}

TEST_F(RunFolderReport, ViewFitsTheTerminal) {
  test::write_run(folder_, "[train]\nepochs = 2\n");
  append("elastic.jsonl", R"({"kind":"start","start":1,"ranks":4,"step":0})"
                          "\n"
                          R"({"kind":"end","start":1,"text":"rank 1 was killed","why":"killed"})"
                          "\n"
                          R"({"kind":"start","start":2,"ranks":3,"step":8})"
                          "\n"
                          R"({"kind":"over","text":"the run is complete"})"
                          "\n");
  watch::View view(folder_);
  view.update();
  for (const int columns : {10, 40, 200}) {
    for (const int rows : {1, 5, 24, 60}) {
      const auto lines = view.lines(columns, rows);
      EXPECT_LE(std::ssize(lines), rows);
      for (const std::string& line : lines) EXPECT_LE(std::ssize(line), columns) << line;
    }
  }
  const auto lines = view.lines(120, 40);
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  for (const char* part :
       {"state       completed", "step 20 of 20 (100 %), epoch 2 of 2\n", "loss 0.8750",
        "test accuracy 0.7000", "checkpoint  step 20, ", "1 restart, last end: rank 1 was killed",
        "training loss\n", "6400 samples/s, 10 ms a step"}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
  }
}

}  // namespace
}  // namespace lockstep::report
