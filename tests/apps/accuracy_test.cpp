// The default deck on the real images reaches PyTorch's accuracy (0.737 after 2 epochs, 0.831 after
// 10).
#include <gtest/gtest.h>

#include <apps/results.hpp>
#include <support/process.hpp>

namespace lockstep::test {
namespace {

class Accuracy : public testing::TestWithParam<int> {};

TEST_P(Accuracy, IsAtLeast071AfterTwoEpochsAnd082AfterTenIn250MiBARank) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  const Finished finished = run(app(GetParam(), "apps/classify",
                                    {source("inputs/fashion_mnist.toml"), "--set",
                                     "run.dir=\"" + dir + "\"", "--set", "train.epochs=10"}),
                                {}, 300);
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  double after_two = 0;
  for (const auto& row : results(dir)) {
    if (row.at("kind") == "eval" && row.at("epoch") == 2) after_two = row.at("accuracy");
  }
  EXPECT_GE(after_two, 0.71);
  const auto summary = nlohmann::json::parse(read_file(dir + "/summary.json"));
  EXPECT_GE(summary.at("test_accuracy").get<double>(), 0.82);
  const auto& peaks = summary.at("peak_rss_mib");
  EXPECT_EQ(std::ssize(peaks), GetParam());
  for (const auto& rss : peaks) {
    EXPECT_GT(rss.get<int>(), 0);
    EXPECT_LE(rss.get<int>(), 250);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Accuracy, testing::Values(1, 2, 4));

}  // namespace
}  // namespace lockstep::test
