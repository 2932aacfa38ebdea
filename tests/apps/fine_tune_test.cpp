// A run that begins with the weights of another, with a part of the model frozen.
#include <gtest/gtest.h>

#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <filesystem>
#include <fstream>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

CheckpointContents last_of(const std::string& dir) {
  return load_checkpoint(dir + "/checkpoints/step-00000040.h5");
}

class FineTuning : public testing::Test {
 protected:
  /// The first training: 10 classes.
  void SetUp() override { ASSERT_EQ(classify(2, small_run(first)).exit_code, 0); }

  const ScratchFolder scratch;
  const std::string first = scratch.file("first"), second = scratch.file("second");
};

TEST_F(FineTuning, OfOtherClassesKeepsTheFrozenLayersBitsAndTrainsANewHead) {
  const Finished run = classify(
      2, small_run(second, {"--set", "train.init_from=\"" + first + "\"", "--set",
                            "model.freeze=[\"conv*\"]", "--set", "data.synthetic_classes=4"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(
      run.says("took 6 of 8 tensors; of another shape, left as initialised: fc2.weight "
               "f32[4, 50], not f32[10, 50], fc2.bias"))
      << run.output;
  const auto before = last_of(first), after = last_of(second);
  for (const char* name : {"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias"}) {
    EXPECT_EQ(std::memcmp(before.model.at(name).data(), after.model.at(name).data(),
                          before.model.at(name).bytes()),
              0)
        << name;
    EXPECT_EQ(after.optimizer.find(std::string(name) + "/momentum_buffer"), nullptr) << name;
  }
  EXPECT_NE(std::memcmp(before.model.at("fc1.weight").data(), after.model.at("fc1.weight").data(),
                        before.model.at("fc1.weight").bytes()),
            0);
}

TEST_F(FineTuning, FromExportedWeightsOfAnyFormatGivesTheBitsOfTheCheckpoint) {
  const std::string file = first + "/checkpoints/step-00000040.h5";
  const auto tuned = [&](const std::string& from, const std::string& dir) {
    const Finished run = classify(1, small_run(dir, {"--set", "train.init_from=\"" + from + "\""}));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    EXPECT_TRUE(run.says("took 8 of 8 tensors\n")) << run.output;
    return last_of(dir);
  };
  const auto want = tuned(file, scratch.file("h5"));
  for (const char* name : {"weights.safetensors", "weights.h5"}) {
    const std::string exported = scratch.file(name);
    ASSERT_EQ(lockstep_utility({"checkpoint", "export", file, "-o", exported}).exit_code, 0);
    expect_same_bits(tuned(exported, exported + ".run").model, want.model);
  }
}

TEST_F(FineTuning, AResumedRunGoesOnWithItsOwnWeights) {
  const std::vector<std::string> tuning{"--set", "train.init_from=\"" + first + "\""};
  ASSERT_EQ(classify(2, small_run(second, tuning)).exit_code, 0);
  auto again = small_run(second, tuning);
  again.push_back("--resume");
  const Finished run = classify(2, again);
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_FALSE(run.says("weights of")) << run.output;
}

TEST_F(FineTuning, FromTheRunsOwnFolderTakesTheRunMovedAside) {
  const std::string file = "/checkpoints/step-00000040.h5";
  const auto want = last_of(first);
  for (const std::string& from : {first, first + file}) {
    const Finished run = classify(2, small_run(first, {"--set", "train.init_from=\"" + from + "\"",
                                                       "--set", "optimizer.lr=0"}));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    EXPECT_TRUE(run.says("took 8 of 8 tensors")) << run.output;
    expect_same_bits(last_of(first).model, want.model);
  }
  EXPECT_TRUE(fs::exists(first + ".2" + file));
}

TEST_F(FineTuning, FromAWrongPathLeavesTheEarlierRunWhereItWas) {
  const auto refused = [&](const std::string& from, const std::string& sentence,
                           std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--set", "train.init_from=\"" + from + "\""});
    const Finished run = classify(2, small_run(first, more));
    EXPECT_TRUE(run.says(sentence)) << run.output;
    EXPECT_TRUE(fs::exists(first + "/summary.json") && !fs::exists(first + ".1")) << run.output;
    return run.exit_code;
  };
  EXPECT_EQ(refused("runs/mistyped", "there is no runs/mistyped (looked for as " +
                                         fs::absolute("runs/mistyped").string()),
            2);
  EXPECT_EQ(refused(first, "nothing in", {"--set", "model.kind=\"resnet18\""}), 2);
  fs::create_directory(second);
  EXPECT_EQ(refused(second, "no intact checkpoint in " + second), 4);
}

TEST_F(FineTuning, UnfitOrMissingWeightsAreASentence) {
  const auto refused = [&](const std::string& from, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--set", "train.init_from=\"" + from + "\""});
    const Finished run = classify(2, small_run(second, more));
    EXPECT_NE(run.exit_code, 0) << run.output;
    return run.output;
  };
  const auto says = [](const std::string& output, const std::string& what) {
    return output.find(what) != std::string::npos;
  };
  std::string output = refused(first, {"--set", "model.kind=\"resnet18\""});
  EXPECT_TRUE(says(output, "nothing in") && says(output, "took 0 of")) << output;
  output = refused(scratch.file("nothing"));
  EXPECT_TRUE(says(output, "there is no " + scratch.file("nothing"))) << output;
  std::ofstream(scratch.file("text")) << "no weights\n";
  output = refused(scratch.file("text"));
  EXPECT_TRUE(says(output, "is not")) << output;
  output = refused(first, {"--set", "model.freeze=[\"convv*\"]"});
  EXPECT_TRUE(says(output, "matches no parameter")) << output;
  output = refused(first, {"--set", "model.freeze=[\"*\"]"});
  EXPECT_TRUE(says(output, "leaves no parameter to train")) << output;
}

}  // namespace
}  // namespace lockstep::test
