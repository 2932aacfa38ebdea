#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <support/process.hpp>

// docs/guide/data_parallel.md: its listings are parts of programs, which behave as the page says.

namespace lockstep::test {
namespace {

/// The page names the program, and its next listing has lines of it.
void expect_on_data_parallel_page(const std::string& example) {
  const std::string page = read_file(source("docs/guide/data_parallel.md"));
  const auto name = page.find("(examples/" + example + ".cpp)");
  ASSERT_NE(name, std::string::npos) << example;
  const auto begin = page.find("```cpp\n", name) + 7, end = page.find("```\n", begin);
  const std::string shown = page.substr(begin, end - begin);
  EXPECT_GT(shown.size(), 100U) << shown;
  EXPECT_NE(read_file(source("docs/examples/" + example + ".cpp")).find("\n" + shown),
            std::string::npos)
      << "docs/examples/" << example << ".cpp does not hold word for word:\n"
      << shown;
}

/// The number before `before` in the last epoch's line.
double last_loss(const std::string& output, const std::string& before) {
  std::smatch last;
  EXPECT_TRUE(std::regex_search(output, last, std::regex("epoch 3  " + before + "loss ([0-9.]+)")))
      << output;
  return last.empty() ? 1e9 : std::stod(last[1]);
}

TEST(DataParallelPage, AveragedParametersTrain) {
  expect_on_data_parallel_page("average_parameters");
  for (const int ranks : {1, 2, 4}) {
    const Finished finished = run(app(ranks, "docs/examples/average_parameters", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_LT(last_loss(finished.output, ""), 0.3) << finished.output;
  }
}

TEST(DataParallelPage, AccumulatedGradientsTrainAlikeOnAnyNumberOfRanks) {
  expect_on_data_parallel_page("accumulate_gradients");
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

TEST(DataParallelPage, LbfgsFitsTheCurveAndAllRanksTakeTheSameSteps) {
  expect_on_data_parallel_page("lbfgs");
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

TEST(DataParallelPage, UnevenInputsTrainAndNoRankIsLeftWaiting) {
  expect_on_data_parallel_page("uneven_inputs");
  const std::string steps[] = {"steps 32 to 32 a rank  ", "steps 11 to 22 a rank  ",
                               "steps 6 to 16 a rank  "};
  for (const int ranks : {1, 2, 3}) {
    const Finished finished = run(app(ranks, "docs/examples/uneven_inputs", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_LT(last_loss(finished.output, steps[ranks - 1]), 0.1) << finished.output;
  }
}

TEST(DataParallelPage, ALoadedRunContinuesWithTheSameBits) {
  expect_on_data_parallel_page("save_and_load");
  for (const int ranks : {1, 2, 3}) {
    const ScratchFolder scratch;
    const Finished finished =
        run(app(ranks, "docs/examples/save_and_load", {scratch.file("s.h5")}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_TRUE(finished.says("the same bits")) << finished.output;
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
  expect_on_data_parallel_page("own_comm_hook");
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
