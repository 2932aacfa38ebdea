// train.reduction = "invariant": a run has the same bits on any number of ranks.
#include <gtest/gtest.h>

#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <functional>

namespace lockstep::test {
namespace {

std::vector<std::string> invariant_run(const std::string& dir, std::vector<std::string> more = {}) {
  auto arguments = small_run(
      dir, {"--set", "train.reduction=\"invariant\"", "--set", "train.shards=12", "--set",
            "train.epochs=2", "--set", "checkpoint.every_steps=7", "--set", "checkpoint.keep=100"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void expect_same_run(const std::string& dir, const std::string& reference) {
  EXPECT_EQ(results(dir), results(reference));
  const char* last = "/checkpoints/step-00000020.h5";
  expect_same_state(load_checkpoint(dir + last), load_checkpoint(reference + last));
}

TEST(InvariantRun, HasTheSameLossesMetricsAndBitsOnAnyRanks) {
  const ScratchFolder scratch;
  const std::string alone = scratch.file("alone");
  ASSERT_EQ(classify(1, invariant_run(alone)).exit_code, 0);
  ASSERT_EQ(results(alone).size(), 14U) << "10 step lines, 2 epochs, 2 evaluations";
  for (const int ranks : {2, 3, 4, 6}) {
    const std::string dir = scratch.file(std::to_string(ranks));
    const Finished run = classify(ranks, invariant_run(dir));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    expect_same_run(dir, alone);
  }
  const std::string nodes = scratch.file("nodes");
  ASSERT_EQ(classify(4, invariant_run(nodes, {"--set", "comm.pretended_nodes=[3, 1]"})).exit_code,
            0);
  expect_same_run(nodes, alone);
  const std::string threads = scratch.file("threads");
  ASSERT_EQ(classify(1, invariant_run(threads, {"--ranks-as-threads", "2"})).exit_code, 0);
  expect_same_run(threads, alone);
}

TEST(InvariantRun, GoesOnWithOtherRanksInTheMiddleOfAnEpochAsIfNothingHadHappened) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), resumed = scratch.file("resumed");
  ASSERT_EQ(classify(2, invariant_run(whole)).exit_code, 0);
  const Finished run =
      classify(3, invariant_run(resumed, {"--resume=" + whole + "/checkpoints/step-00000007.h5"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  ASSERT_TRUE(run.says("at step 7")) << run.output;
  const char* last = "/checkpoints/step-00000020.h5";
  expect_same_bits(load_checkpoint(resumed + last).model, load_checkpoint(whole + last).model);
  EXPECT_EQ(results(resumed).back(), results(whole).back());
}

TEST(InvariantRun, RefusesUnsupportedOptionsOnceWithTheRemedy) {
  const ScratchFolder scratch;
  const Finished five = classify(5, invariant_run(scratch.file("five")));
  EXPECT_EQ(five.exit_code, 2);
  EXPECT_TRUE(
      five.says("5 ranks cannot share 12 shards of a batch evenly (train.shards); 1, 2, 3, 4, "
                "6 or 12 can"))
      << five.output;
  const Finished rounded = classify(
      2, invariant_run(scratch.file("rounded"), {"--set", "ddp.comm_hook=\"bf16_compress\""}));
  EXPECT_EQ(rounded.exit_code, 2);
  EXPECT_TRUE(rounded.says("ddp.comm_hook must be \"all_reduce\"")) << rounded.output;
  const Finished joined =
      classify(2, invariant_run(scratch.file("joined"), {"--set", "ddp.sync_batch_norm=true"}));
  EXPECT_EQ(joined.exit_code, 2);
  EXPECT_TRUE(joined.says("SyncBatchNorm needs the whole batch at once")) << joined.output;
  EXPECT_TRUE(joined.says("train.reduction = \"fast\"")) << joined.output;
}

}  // namespace
}  // namespace lockstep::test
