// `lockstep model describe` and `classify DECK --check-gradients`, as a user types them.
#include <gtest/gtest.h>

#include <apps/small_run.hpp>
#include <filesystem>

namespace lockstep::test {
namespace {

TEST(ModelDescribe, PrintsLayersShapesParametersFlopsAndMemory) {
  const auto result = lockstep_utility({"model", "describe", source("inputs/synthetic.toml")});
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const char* text : {"conv1", "Conv2d", "[10, 24, 24]", "21840", "0.961", "gradients",
                           "optimizer state", "activations of 128 samples"}) {
    EXPECT_TRUE(result.says(text)) << text << " in\n" << result.output;
  }
}

TEST(ModelDescribe, TakesOverridesAndRefusesWhatDoesNotFit) {
  const auto deck = source("inputs/synthetic.toml");
  const auto other = lockstep_utility(
      {"model", "describe", deck, "--set", "model.kind=\"mlp\"", "--set", "model.hidden=[7]"});
  EXPECT_EQ(other.exit_code, 0) << other.output;
  EXPECT_TRUE(other.says("5575")) << other.output;  // 785 x 7 + 8 x 10
  const auto small =
      lockstep_utility({"model", "describe", deck, "--set", "data.synthetic_image_size=9"});
  EXPECT_EQ(small.exit_code, 2);
  EXPECT_TRUE(small.says("16 x 16")) << small.output;
  EXPECT_EQ(lockstep_utility({"model", "describe", "no-such-deck.toml"}).exit_code, 2);
}

TEST(CheckGradients, PassForTheDefaultModelOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2}) {
    const ScratchFolder scratch;
    const auto result = classify(ranks, {source("inputs/synthetic.toml"), "--check-gradients",
                                         "--set", "run.dir=\"" + scratch.file("run") + "\""});
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_TRUE(result.says("conv1.weight")) << result.output;
    EXPECT_TRUE(result.says("every gradient agrees")) << result.output;
    EXPECT_FALSE(std::filesystem::exists(scratch.file("run"))) << "nothing is written";
  }
}

}  // namespace
}  // namespace lockstep::test
