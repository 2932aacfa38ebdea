// The default deck on the real images learns what PyTorch learns (0.737 after 2 epochs, 0.831 after
// 10).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <support/process.hpp>

namespace lockstep::test {
namespace {

nlohmann::json train(int ranks, int epochs) {
  const ScratchFolder scratch;
  const Finished finished = run(
      app(ranks, "apps/classify",
          {source("inputs/fashion_mnist.toml"), "--set", "run.dir=\"" + scratch.file("run") + "\"",
           "--set", "train.epochs=" + std::to_string(epochs)}),
      {}, 300);
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  return nlohmann::json::parse(read_file(scratch.file("run/summary.json")));
}

class Accuracy : public testing::TestWithParam<int> {};

TEST_P(Accuracy, IsAtLeast071AfterTwoEpochsIn250MiBARank) {
  const auto summary = train(GetParam(), 2);
  EXPECT_GE(summary.at("test_accuracy").get<double>(), 0.71);
  const auto& peaks = summary.at("peak_rss_mib");
  EXPECT_EQ(std::ssize(peaks), GetParam());
  for (const auto& rss : peaks) {
    EXPECT_GT(rss.get<int>(), 0);
    EXPECT_LE(rss.get<int>(), 250);
  }
}

TEST_P(Accuracy, IsAtLeast082AfterTenEpochs) {
  EXPECT_GE(train(GetParam(), 10).at("test_accuracy").get<double>(), 0.82);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Accuracy, testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace lockstep::test
