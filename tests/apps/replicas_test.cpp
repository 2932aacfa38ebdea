// One flipped bit in one rank's memory, and the messages to the user.
#include <gtest/gtest.h>

#include <apps/fault.hpp>
#include <apps/small_run.hpp>
#include <cstring>
#include <nlohmann/json.hpp>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>

namespace lockstep::test {
namespace {

std::vector<std::string> checked_run(const std::string& dir) {
  return small_run(dir, {"--set", "train.check_replicas_every=5", "--set", "checkpoint.keep=0"});
}

TEST(FlippedBit, OfAParameterIsOneSentenceNamingRankAndTensorAndExitCodeOne) {
  for (const int ranks : {2, 3}) {
    const ScratchFolder scratch;
    const std::string dir = scratch.file("run");
    const Fault fault = misbehave(ranks, "flip 1 17", checked_run(dir));
    const Finished& run = fault.finished;
    EXPECT_GT(fault.seconds, 0.0) << "the bit never flipped";
    EXPECT_EQ(run.exit_code, 1) << run.output;
    EXPECT_TRUE(run.says("after step 20 ") && run.says("conv1.weight") && run.says("--resume"))
        << run.output;
    EXPECT_TRUE(run.says(ranks == 2 ? "ranks 0 (" : "rank 1 (")) << run.output;
    const std::string verdict = "replicas are not equal";
    EXPECT_EQ(run.output.find(verdict), run.output.rfind(verdict)) << "once\n" << run.output;
    // Resumed without the fault, it ends like a run that never had one.
    EXPECT_EQ(newest_good_checkpoint(dir + "/checkpoints"), dir + "/checkpoints/step-00000010.h5");
    auto again = checked_run(dir);
    again.push_back("--resume");
    EXPECT_EQ(classify(ranks, again).exit_code, 0);
    ASSERT_EQ(classify(ranks, small_run(scratch.file("sound"))).exit_code, 0);
    const auto resumed = load_checkpoint(dir + "/checkpoints/step-00000040.h5").model;
    for (const auto& [name, tensor, placement] :
         load_checkpoint(scratch.file("sound/checkpoints/step-00000040.h5")).model) {
      EXPECT_EQ(std::memcmp(resumed.at(name).data(), tensor.data(), tensor.bytes()), 0) << name;
    }
  }
}

TEST(FlippedBit, GoesUnnoticedWhereTheDeckAsksForNoComparison) {
  const ScratchFolder scratch;
  EXPECT_EQ(misbehave(2, "flip 1 17", small_run(scratch.file("run"))).finished.exit_code, 0);
}

}  // namespace
}  // namespace lockstep::test
