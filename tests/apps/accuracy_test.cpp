// The default deck on the real images reaches PyTorch's accuracy (0.737 after 2 epochs, 0.831 after
// 10).
#include <gtest/gtest.h>

#include <apps/results.hpp>
#include <support/process.hpp>

namespace lockstep::test {
namespace {

class Accuracy : public testing::Test {
 protected:
  /// The evaluations of a run, in which no rank takes more than 250 MiB.
  std::vector<nlohmann::json> train(int ranks, int epochs) {
    const ScratchFolder scratch;
    const std::string dir = scratch.file("run");
    const Finished finished =
        run(app(ranks, "apps/classify",
                {source("inputs/fashion_mnist.toml"), "--set", "run.dir=\"" + dir + "\"", "--set",
                 "train.epochs=" + std::to_string(epochs)}),
            {}, 300);
    EXPECT_EQ(finished.exit_code, 0) << finished.output;
    if (finished.exit_code != 0) return {};
    const auto summary = nlohmann::json::parse(read_file(dir + "/summary.json"));
    const auto& peaks = summary.at("peak_rss_mib");
    EXPECT_EQ(std::ssize(peaks), ranks);
    for (const auto& rss : peaks) {
      EXPECT_GT(rss.get<int>(), 0);
      EXPECT_LE(rss.get<int>(), 250);
    }
    std::vector<nlohmann::json> evaluations;
    for (const auto& row : results(dir))
      if (row.at("kind") == "eval") evaluations.push_back(row);
    EXPECT_EQ(std::ssize(evaluations), epochs);
    return evaluations;
  }
};

// Ten epochs on one number of ranks: on the others each epoch ends where it ends there.
TEST_F(Accuracy, IsAtLeast071AfterTwoEpochsAnd082AfterTenIn250MiBARankOnAnyNumberOfThem) {
  const auto whole = train(2, 10);
  ASSERT_EQ(whole.size(), 10U);
  EXPECT_GE(whole[1].at("accuracy").get<double>(), 0.71);
  EXPECT_GE(whole[9].at("accuracy").get<double>(), 0.82);
  for (const int ranks : {1, 4}) {
    const auto first = train(ranks, 2);
    ASSERT_EQ(first.size(), 2U);
    EXPECT_GE(first[1].at("accuracy").get<double>(), 0.71) << ranks << " ranks";
    for (std::size_t i = 0; i < 2; ++i) {
      const double loss = whole[i].at("loss");
      EXPECT_NEAR(first[i].at("loss").get<double>(), loss, 0.01 * loss) << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace lockstep::test
