#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <support/process.hpp>

#include "page.hpp"

// docs/guide/data_parallel.md: what it shows are parts of programs, which do what the page says.

namespace lockstep::test {
namespace {

/// What the last epoch's line says behind `before`.
double last_loss(const std::string& output, const std::string& before) {
  std::smatch last;
  EXPECT_TRUE(std::regex_search(output, last, std::regex("epoch 3  " + before + "loss ([0-9.]+)")))
      << output;
  return last.empty() ? 1e9 : std::stod(last[1]);
}

TEST(DataParallelPage, AveragedParametersTrain) {
  expect_excerpt("data_parallel.md", "average_parameters");
  for (const int ranks : {1, 2, 4}) {
    const Finished finished = run(app(ranks, "docs/examples/average_parameters", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_LT(last_loss(finished.output, ""), 0.3) << finished.output;
  }
}

TEST(DataParallelPage, AccumulatedGradientsTrainAlikeOnAnyNumberOfRanks) {
  expect_excerpt("data_parallel.md", "accumulate_gradients");
  double alone = 0;
  for (const int ranks : {1, 2, 3}) {
    const Finished finished = run(app(ranks, "docs/examples/accumulate_gradients", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    const double loss = last_loss(finished.output, "");
    EXPECT_LT(loss, 0.3) << finished.output;
    if (ranks == 1) alone = loss;
    EXPECT_NEAR(loss, alone, 1e-3) << finished.output;
  }
}

TEST(DataParallelPage, AScheduledTrainingIsEvaluatedAlikeOnAnyNumberOfRanks) {
  const char *page = "data_parallel.md", *example = "schedule_and_evaluate";
  expect_block(expect_block(expect_excerpt(page, example), page, example), page, example);
  for (const int ranks : {1, 2, 3}) {
    const Finished finished = run(app(ranks, "docs/examples/schedule_and_evaluate", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_TRUE(finished.says("epoch 2  lr 0.05  accuracy")) << finished.output;
    std::smatch last;
    ASSERT_TRUE(std::regex_search(finished.output, last,
                                  std::regex("epoch 3  lr 0.005  accuracy ([0-9.]+)")))
        << finished.output;
    EXPECT_GT(std::stod(last[1]), 0.9) << finished.output;
  }
}

TEST(DataParallelPage, AShardedGptTrainsAndARankHoldsItsShare) {
  for (const int ranks : {1, 2, 3}) {
    const Finished finished = run(app(ranks, "docs/examples/fully_shard", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_NE(finished.output.find("loss below 0.5: yes"), std::string::npos) << finished.output;
    long own = 0, whole = 0;
    ASSERT_EQ(std::sscanf(finished.output.c_str(), "%ld of %ld", &own, &whole), 2);
    EXPECT_LE(own, whole / ranks + 200) << finished.output;
  }
}

TEST(DataParallelPage, LbfgsFitsTheCurveAndAllRanksTakeTheSameSteps) {
  expect_excerpt("data_parallel.md", "lbfgs");
  for (const int ranks : {1, 2, 3}) {
    const Finished finished = run(app(ranks, "docs/examples/lbfgs", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    std::smatch last;
    ASSERT_TRUE(std::regex_search(finished.output, last,
                                  std::regex("([0-9.e+-]+) on all ranks, the same\n")))
        << finished.output;
    EXPECT_LT(std::stod(last[1]), 1e-4) << finished.output;
  }
}

TEST(DataParallelPage, UnevenInputsTrainAndNobodyIsLeftWaiting) {
  expect_excerpt("data_parallel.md", "uneven_inputs");
  const std::string steps[] = {"steps 32 to 32 a rank  ", "steps 11 to 22 a rank  ",
                               "steps 6 to 16 a rank  "};
  for (const int ranks : {1, 2, 3}) {
    const Finished finished = run(app(ranks, "docs/examples/uneven_inputs", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_LT(last_loss(finished.output, steps[ranks - 1]), 0.1) << finished.output;
  }
}

TEST(DataParallelPage, WhatIsLoadedGoesOnWithTheSameBitsOnAnyNumberOfRanks) {
  EXPECT_NE(read_file(source("docs/guide/data_parallel.md")).find("examples/save_and_load.cpp)"),
            std::string::npos);
  const ScratchFolder scratch;
  const std::string straight = scratch.file("straight"), last = "/step-00000032.h5";
  ASSERT_EQ(run(app(1, "docs/examples/save_and_load", {straight, "2"})).exit_code, 0);
  for (const int ranks : {1, 2, 3}) {
    const std::string folder = scratch.file(std::to_string(ranks));
    ASSERT_EQ(run(app(ranks, "docs/examples/save_and_load", {folder, "1"})).exit_code, 0);
    const Finished resumed = run(app(4 - ranks, "docs/examples/save_and_load", {folder, "2"}));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
    EXPECT_TRUE(resumed.says("goes on from step 16")) << resumed.output;
    const Finished compared =
        run({built("apps/lockstep"), "checkpoint", "diff", straight + last, folder + last});
    EXPECT_EQ(compared.exit_code, 0) << compared.output;
  }
}

TEST(DataParallelPage, AModelOverTwoRanksTrainsOnOneAndTwoReplicas) {
  for (const int ranks : {2, 4}) {
    const Finished finished = run(app(ranks, "docs/examples/model_over_two_ranks", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_LT(last_loss(finished.output, ""), 0.1) << finished.output;
  }
  EXPECT_EQ(run(app(3, "docs/examples/model_over_two_ranks", {})).exit_code, 2);
}

TEST(DataParallelPage, OwnCommHookLearnsWithHalfOfTheBytes) {
  expect_excerpt("data_parallel.md", "own_comm_hook");
  for (const int ranks : {1, 2, 4}) {
    const Finished finished = run(app(ranks, "docs/examples/own_comm_hook", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_LT(last_loss(finished.output, ""), 0.1) << finished.output;
    std::smatch bytes;
    ASSERT_TRUE(std::regex_search(finished.output, bytes,
                                  std::regex("sent ([0-9.]+) MB in place of ([0-9.]+) MB")))
        << finished.output;
    EXPECT_GT(std::stod(bytes[1]), 1.0) << finished.output;
    EXPECT_NEAR(2 * std::stod(bytes[1]), std::stod(bytes[2]), 0.2) << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
