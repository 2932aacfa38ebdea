#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <lockstep/base/error.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/io/file.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <optional>
#include <set>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

MetricsRow step_row(std::int64_t step) {
  return {.kind = "step", .step = step, .epoch = 1, .loss = 0.5};
}

/// For a run that begins, or resumes with its own history.
MetricsFile begun(const std::string& file, std::optional<std::int64_t> step = {}) {
  MetricsFile metrics = step ? MetricsFile(file, file, *step, 1) : MetricsFile(file);
  metrics.begin();
  return metrics;
}

TEST(MetricsFile, RowsReadBackAsWritten) {
  const test::ScratchFolder scratch;
  const std::string file = scratch.file("metrics.jsonl");
  MetricsRow row = step_row(10);
  row.lr = 0.1;
  row.grad_norm = 2.5;
  row.samples_per_s = 1234.5;
  row.flops_per_s = 3e9;
  row.of_peak = 0.25;
  row.has_times = true;
  row.times.communication = {0.25, 0.5, 1.0};
  row.times.communication_work = {0.125, 0.25, 0.5};
  row.times.communication_late = {0.0625, 0.125, 0.25};
  row.times.backward = {1, 2, 3};
  row.slowest = Slowest{
      .rank = 3, .phase = "backward", .ratio = 1.5, .seconds = 0.0625, .median_seconds = 0.03125};
  begun(file).append(row);
  const MetricsFile again = begun(file, 10);
  ASSERT_EQ(again.rows().size(), 1U);
  EXPECT_EQ(again.rows()[0].samples_per_s, 1234.5);
  EXPECT_EQ(again.rows()[0].flops_per_s, 3e9);
  EXPECT_EQ(again.rows()[0].of_peak, 0.25);
  EXPECT_EQ(again.rows()[0].grad_norm, 2.5);
  EXPECT_EQ(again.rows()[0].times.communication.max, 1.0);
  EXPECT_EQ(again.rows()[0].times.communication_work.max, 0.5);
  EXPECT_EQ(again.rows()[0].times.communication_late.mean, 0.125);
  EXPECT_EQ(again.rows()[0].times.backward.max, 3.0);
  ASSERT_TRUE(again.rows()[0].slowest);
  EXPECT_EQ(again.rows()[0].slowest->text(), row.slowest->text());
}

// 485,000 rows took 196 MB.
TEST(MetricsFile, OfALongRunEveryManyThRowStaysInMemoryAndTheNewest) {
  const test::ScratchFolder scratch;
  const std::string file = scratch.file("metrics.jsonl");
  constexpr std::int64_t epochs = 5000, steps_an_epoch = 4;
  const auto expect_few = [&](const MetricsFile& metrics) {
    const auto& rows = metrics.rows();
    EXPECT_LE(std::ssize(rows), 2 * MetricsFile::most_rows + 4);
    EXPECT_GE(std::ssize(rows), MetricsFile::most_rows) << "enough for curves";
    EXPECT_EQ(metrics.epochs_apart(), 4);
    std::set<std::int64_t> evaluated;
    for (const MetricsRow& row : rows)
      if (row.kind == "eval") evaluated.insert(row.epoch);
    std::int64_t steps = 0, last_epoch = 0;
    for (const MetricsRow& row : rows) {
      if (row.kind == "step") ++steps;
      if (row.kind != "epoch") continue;
      EXPECT_TRUE(row.epoch % metrics.epochs_apart() == 0 || row.epoch == epochs) << row.epoch;
      ASSERT_TRUE(evaluated.contains(row.epoch)) << row.epoch;
      last_epoch = row.epoch;
    }
    EXPECT_EQ(last_epoch, epochs);
    EXPECT_GT(steps, MetricsFile::most_rows / 3);
    EXPECT_EQ(rows.back().kind, "eval");
    EXPECT_EQ(rows.back().epoch, epochs);
  };
  {
    MetricsFile metrics = begun(file);
    for (std::int64_t epoch = 1; epoch <= epochs; ++epoch) {
      for (std::int64_t i = 0; i < steps_an_epoch; ++i) {
        MetricsRow row = step_row((epoch - 1) * steps_an_epoch + i + 1);
        row.epoch = epoch;
        metrics.append(row);
      }
      const std::int64_t step = epoch * steps_an_epoch;
      metrics.append({.kind = "epoch", .step = step, .epoch = epoch, .loss = 0.5});
      metrics.append({.kind = "eval", .step = step, .epoch = epoch, .loss = 0.5});
    }
    expect_few(metrics);
  }
  const std::string before = read_file(file);
  EXPECT_EQ(std::ranges::count(before, '\n'), epochs * (steps_an_epoch + 2));
  MetricsFile again(file, file, epochs * steps_an_epoch, epochs);
  again.begin();
  expect_few(again);
  EXPECT_TRUE(read_file(file) == before) << "the file has all rows";
}

TEST(MetricsFile, CountsLostSteps) {
  const test::ScratchFolder scratch;
  const std::string file = scratch.file("metrics.jsonl");
  {
    MetricsFile all = begun(file);
    for (const std::int64_t step : {10, 20, 30}) all.append(step_row(step));
    EXPECT_EQ(all.steps_again(), 0);
  }
  const MetricsFile resumed = begun(file, 12);
  EXPECT_EQ(resumed.rows().size(), 1U);
  EXPECT_EQ(resumed.steps_again(), 18);
  EXPECT_EQ(begun(file, 12).steps_again(), 0);
}

// Its checkpoint is from the epoch's last step; its rows are from a start killed after them.
TEST(MetricsFile, AnEpochThatEndsOnceMoreHasItsRowsOnce) {
  const test::ScratchFolder scratch;
  const std::string file = scratch.file("metrics.jsonl");
  {
    MetricsFile all = begun(file);
    for (const std::int64_t epoch : {1, 2}) {
      for (const char* kind : {"step", "epoch", "eval"})
        all.append({.kind = kind, .step = 10 * epoch, .epoch = epoch});
    }
  }
  const MetricsFile before(file, file, 20, 1), after(file, file, 20, 2);
  EXPECT_EQ(before.rows().size(), 4U);
  EXPECT_EQ(before.rows().back().kind, "step");
  EXPECT_EQ(before.steps_again(), 0);
  EXPECT_EQ(after.rows().size(), 6U);
}

TEST(MetricsFile, AResumeThatCannotWriteLeavesTheRowsOfThePast) {
  const test::ScratchFolder scratch;
  const std::string file = scratch.file("metrics.jsonl");
  begun(file).append(step_row(10));
  const std::string before = test::read_file(file);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit nothing{0, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &nothing);
  EXPECT_THROW(begun(file, 10), Error);
  setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_EQ(test::read_file(file), before);
}

TEST(MetricsFile, ARowThatFindsNoRoomIsWrittenWhenThereIsSome) {
  const test::ScratchFolder scratch;
  const std::string file = scratch.file("metrics.jsonl");
  MetricsFile metrics = begun(file);
  metrics.append(step_row(10));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit full{static_cast<rlim_t>(std::filesystem::file_size(file)) + 5, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view text) { warnings.emplace_back(text); });
  for (const std::int64_t step : {20, 30}) metrics.append(step_row(step));
  EXPECT_THROW(metrics.flush(), FileError);
  const auto cut = MetricsFile(file, file, 100, 1);
  setrlimit(RLIMIT_FSIZE, &limit);
  metrics.append(step_row(40));
  set_log_sink({});
  EXPECT_EQ(cut.rows().size(), 1U) << "half a line is none";
  const auto whole = MetricsFile(file, file, 100, 1);
  ASSERT_EQ(whole.rows().size(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(whole.rows()[i].step, 10 * (static_cast<std::int64_t>(i) + 1));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("metrics.jsonl: File too large"), std::string::npos) << warnings[0];
}

TEST(MetricsFile, RowsThatNeverFindRoomAreAnErrorInTheEnd) {
  const test::ScratchFolder scratch;
  MetricsFile metrics = begun(scratch.file("metrics.jsonl"));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit nothing{0, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &nothing);
  set_log_sink([](LogLevel, std::string_view) {});
  const auto fill = [&] {
    for (std::size_t row = 0; row < MetricsFile::most_unwritten / 10; ++row)
      metrics.append(step_row(10));
  };
  EXPECT_THROW(fill(), FileError);
  set_log_sink({});
  setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(MetricsFile, ResumingDropsLaterRowsAndAHalfWrittenLine) {
  const test::ScratchFolder scratch;
  const std::string file = scratch.file("metrics.jsonl");
  {
    MetricsFile metrics = begun(file);
    for (const std::int64_t step : {10, 20, 30}) metrics.append(step_row(step));
  }
  std::ofstream(file, std::ios::app) << "{\"kind\": \"st";
  const MetricsFile resumed = begun(file, 20);
  ASSERT_EQ(resumed.rows().size(), 2U);
  EXPECT_EQ(resumed.rows().back().step, 20);
  EXPECT_EQ(test::read_file(file).find("\"step\":30"), std::string::npos);
}

TEST(MetricsFile, ThePastIsThatOfTheRunOrBranchThatIsGoneOnFrom) {
  const test::ScratchFolder scratch;
  const std::string mine = scratch.file("metrics.jsonl"), other = scratch.file("other.jsonl");
  MetricsFile file = begun(mine);
  for (const std::int64_t step : {1, 2, 3}) file.append(step_row(step));
  begun(other).append(step_row(10));
  MetricsFile goes_on(mine, other, 10, 1);
  EXPECT_EQ(goes_on.steps_again(), 0);
  EXPECT_NE(test::read_file(mine), test::read_file(other)) << "nothing is written yet";
  goes_on.begin();
  EXPECT_EQ(test::read_file(mine), test::read_file(other));
  MetricsFile without(mine, scratch.file("none.jsonl"), 10, 1);
  without.begin();
  EXPECT_EQ(test::read_file(mine), "");
}

TEST(MetricsFile, ResumingDropsLinesThatAreNoRows) {
  const test::ScratchFolder scratch;
  const std::string file = scratch.file("metrics.jsonl");
  begun(file).append(step_row(10));
  const std::string row = test::read_file(file);
  std::ofstream(file, std::ios::app)
      << "[1,2]\n7\n\"step\"\nnull\n{}\n"
      << R"({"kind":"step","stes":20,"epoch":1,"loss":0.5})" << '\n'
      << R"({"kind":"step","step":"20","epoch":1,"loss":0.5})" << '\n'
      << R"({"kind":"eval","step":20,"epoch":1,"loss":0.5,"accuracy":[]})" << '\n'
      << R"({"kind":"epoch","step":20,"epoch":1,"loss":0.5,"time_min_mean_max_s":{"data":[1]}})"
      << '\n'
      << row;
  const MetricsFile resumed = begun(file, 20);
  EXPECT_EQ(resumed.rows().size(), 2U);
  EXPECT_EQ(test::read_file(file), row + row);
}

TEST(MetricsFile, LossThatIsNotFiniteIsNullAndComesBackAsNan) {
  const test::ScratchFolder scratch;
  const std::string file = scratch.file("metrics.jsonl");
  MetricsRow row = step_row(1);
  row.loss = row.grad_norm = std::nan("");
  begun(file).append(row);
  EXPECT_NE(test::read_file(file).find("\"loss\":null"), std::string::npos);
  const MetricsFile again = begun(file, 1);
  EXPECT_TRUE(std::isnan(again.rows().at(0).loss));
  EXPECT_TRUE(std::isnan(again.rows().at(0).grad_norm));
}

}  // namespace
}  // namespace lockstep::train
