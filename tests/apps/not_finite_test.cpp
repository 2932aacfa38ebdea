// Weights and losses that are not finite: saves, kept files and messages.
#include <fstream>
#include <utility>

#include <gtest/gtest.h>

#include <apps/results.hpp>
#include <apps/small_run.hpp>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// Every epoch is one step.
std::vector<std::string> one_step(const std::string& dir, const std::vector<std::string>& sets,
                                  bool resume = false) {
  auto arguments = small_run(dir, {"--set", "train.batch_size=600", "--set", "checkpoint.keep=1"});
  for (const auto& set : sets) arguments.insert(arguments.end(), {"--set", set});
  if (resume) arguments.push_back("--resume");
  return arguments;
}

TEST(NotFinite, TestLossEndsTheRunWithExitCodeOneAndTheEarlierCheckpointsStay) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  ASSERT_EQ(classify(2, one_step(dir, {"train.epochs=1"})).exit_code, 0);
  const Finished run = classify(2, one_step(dir, {"train.epochs=2", "optimizer.lr=1e308"}, true));
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_TRUE(run.says("test loss is") && run.says("step 2") && run.says("optimizer.lr") &&
              run.says("conv1.weight"))
      << run.output;
  EXPECT_FALSE(completed(dir));
  EXPECT_EQ(newest_good_checkpoint(dir + "/checkpoints"), dir + "/checkpoints/step-00000001.h5");
}

TEST(NotFinite, LossOfAllRanksIsToldOnceAndThatNothingWasSaved) {
  const ScratchFolder scratch;
  const Finished run = classify(2, small_run(scratch.file("run"), {"--set", "optimizer.lr=1e308"}));
  EXPECT_EQ(run.exit_code, 1) << run.output;
  const auto told = run.output.find("the loss is ");
  ASSERT_NE(told, std::string::npos) << run.output;
  EXPECT_EQ(run.output.find("the loss is ", told + 1), std::string::npos) << run.output;
  EXPECT_TRUE(run.says("No checkpoint was saved before.")) << run.output;
}

TEST(NotFinite, TestLossBesideAFiniteValidationLossEndsTheRunWithExitCodeOneAndTheWeightsAreSaved) {
  const ScratchFolder scratch;
  const auto table = [&](const std::string& name, int rows, const std::string& last) {
    std::ofstream file(scratch.file(name));
    file << "a,y\n";
    for (int row = 0; row < rows; ++row) file << 0.01 * row << "," << 0.02 * row << "\n";
    file << last;
  };
  table("train.csv", 60, "");
  table("test.csv", 10, "0.5,1e30\n");  // its square exceeds f32
  std::ofstream(scratch.file("deck.toml"))
      << "[data]\nkind = \"csv\"\npath = \"" << scratch.file("train.csv") << "\"\ntest_path = \""
      << scratch.file("test.csv")
      << "\"\nvalidation_fraction = 0.2\n[model]\nkind = \"mlp\"\n[train]\nepochs = 1\nbatch_size "
         "= 48\n";
  for (const auto& [on_nan, code] : {std::pair{"stop", 1}, {"ignore", 0}}) {
    SCOPED_TRACE(on_nan);
    const std::string dir = scratch.file(on_nan);
    const Finished run =
        lockstep::test::run(app(2, "apps/regress",
                                {scratch.file("deck.toml"), "--set", "run.dir=\"" + dir + "\"",
                                 "--set", std::string("train.on_nan=\"") + on_nan + "\""}));
    EXPECT_EQ(run.exit_code, code) << run.output;
    EXPECT_EQ(run.says("the test loss is inf after step 1"), code == 1) << run.output;
    EXPECT_EQ(completed(dir), code == 0);
    EXPECT_TRUE(newest_good_checkpoint(dir + "/checkpoints"));
  }
}

TEST(NotFinite, WeightsAreNeverPublishedAndTheSentenceNamesThem) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  const Finished run = classify(
      2, small_run(dir, {"--set", "optimizer.lr=1e308", "--set", "checkpoint.every_steps=1"}));
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_TRUE(run.says("conv1.weight") && run.says("step-00000001.h5") &&
              run.says("train.on_nan=\"ignore\""))
      << run.output;
  EXPECT_FALSE(completed(dir));
  EXPECT_TRUE(fs::is_empty(dir + "/checkpoints"));
}

TEST(NotFinite, WeightsArePublishedWhereTheDeckSaysIgnoreAndPushNoFiniteOnesOut) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  ASSERT_EQ(classify(2, one_step(dir, {"train.epochs=1"})).exit_code, 0);
  const std::string ignore = "train.on_nan=\"ignore\"";
  const Finished run =
      classify(2, one_step(dir, {"train.epochs=3", "optimizer.lr=1e308", ignore}, true));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.says("warning") && run.says("conv1.weight")) << run.output;
  const auto left = list_checkpoints(dir + "/checkpoints");
  EXPECT_EQ(left, (std::vector<fs::path>{dir + "/checkpoints/step-00000003.h5",
                                         dir + "/checkpoints/step-00000001.h5"}));
}

}  // namespace
}  // namespace lockstep::test
