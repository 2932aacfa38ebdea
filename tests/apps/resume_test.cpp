// A run that was stopped, killed or shortened and then resumed has the bits of an uninterrupted
// one.
#include <gtest/gtest.h>

#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

void expect_same_end(const std::string& a, const std::string& b) {
  const auto x = load_checkpoint(a + "/checkpoints/step-00000040.h5"),
             y = load_checkpoint(b + "/checkpoints/step-00000040.h5");
  expect_same_state(x, y);
  EXPECT_EQ(x.train.step, y.train.step);
  const Json s = Json::parse(read_file(a + "/summary.json")),
             t = Json::parse(read_file(b + "/summary.json"));
  for (const char* key :
       {"train_loss", "test_loss", "test_accuracy", "steps", "epochs", "completed"})
    EXPECT_EQ(s.at(key), t.at(key)) << key;
}

std::vector<std::string> saving_every_three_steps(const std::string& dir,
                                                  std::vector<std::string> more = {}) {
  auto arguments =
      small_run(dir, {"--set", "checkpoint.every_steps=3", "--set", "checkpoint.keep=0"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class Resume : public testing::TestWithParam<int> {};

TEST_P(Resume, FromTheMiddleOfAnEpochGivesTheSameBitsAndMetrics) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), resumed = scratch.file("resumed");
  ASSERT_EQ(classify(GetParam(), saving_every_three_steps(whole)).exit_code, 0);
  const Finished run = classify(
      GetParam(),
      saving_every_three_steps(resumed, {"--resume=" + whole + "/checkpoints/step-00000027.h5"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.says("at step 27")) << run.output;
  expect_same_end(whole, resumed);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Resume, testing::Values(1, 2, 3));

/// Written by a thread of each rank, as by default; read by another number of ranks.
TEST(Resume, FromCompressedCheckpointsGivesTheSameBits) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), resumed = scratch.file("resumed");
  const std::vector<std::string> invariant{"--set", "train.reduction=\"invariant\"",
                                           "--set", "train.shards=6",
                                           "--set", "model.kind=\"mlp\""},
      compressed{"--set", "checkpoint.compression=\"deflate\""};
  ASSERT_EQ(classify(2, saving_every_three_steps(whole, invariant)).exit_code, 0);
  auto more = invariant;
  more.insert(more.end(), compressed.begin(), compressed.end());
  ASSERT_EQ(classify(2, saving_every_three_steps(resumed, more)).exit_code, 0);
  expect_same_end(whole, resumed);
  const auto size = [](const std::string& run) {
    return std::filesystem::file_size(run + "/checkpoints/step-00000027.h5");
  };
  EXPECT_LT(size(resumed), size(whole));
  more.push_back("--resume=" + resumed + "/checkpoints/step-00000027.h5");
  const Finished run = classify(3, saving_every_three_steps(resumed, more));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.says("at step 27")) << run.output;
  expect_same_end(whole, resumed);
}

/// A run with an injected fault of rank 1 in its 23rd step.
Finished interrupted(const std::string& what, const std::vector<std::string>& arguments) {
  return run(app(2, "tests/apps/misbehave", arguments), {{"MISBEHAVE", what + " 1 23"}});
}

TEST(Resume, OfAKilledRunGoesOnFromTheNewestCheckpointToTheSameBits) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), killed = scratch.file("killed");
  ASSERT_EQ(classify(2, saving_every_three_steps(whole)).exit_code, 0);
  ASSERT_NE(interrupted("kill", saving_every_three_steps(killed)).exit_code, 0);
  EXPECT_FALSE(fs::exists(killed + "/checkpoints/step-00000024.h5"));
  const Finished rest = classify(2, saving_every_three_steps(killed, {"--resume"}));
  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(rest.says("resumed from")) << rest.output;
  expect_same_end(whole, killed);
}

TEST(Resume, MetricsContinueWithoutGapsOrRepeats) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  ASSERT_EQ(classify(2, saving_every_three_steps(dir)).exit_code, 0);
  fs::remove(dir + "/checkpoints/step-00000040.h5");
  fs::remove(dir + "/checkpoints/step-00000039.h5");
  std::ofstream(dir + "/metrics.jsonl", std::ios::app) << "{\"kind\": \"st";  // as after a kill
  ASSERT_EQ(classify(2, saving_every_three_steps(dir, {"--resume"})).exit_code, 0);
  std::ifstream in(dir + "/metrics.jsonl");
  std::vector<std::int64_t> steps;
  for (std::string line; std::getline(in, line);) {
    const Json row = Json::parse(line);
    if (row["kind"] == "step") steps.push_back(row["step"]);
  }
  std::vector<std::int64_t> expected;
  for (std::int64_t step = 2; step <= 40; step += 2) expected.push_back(step);
  EXPECT_EQ(steps, expected);
}

TEST(Resume, OfAdamWWithGroupsAScheduleOfTheWholeRunAndClippingGivesTheSameBits) {
  const ScratchFolder scratch;
  const auto arguments = [](const std::string& dir, const std::string& resume = "") {
    auto all = saving_every_three_steps(dir);
    for (const char* set :
         {"optimizer.kind=\"adamw\"", "optimizer.lr=0.005", "optimizer.clip_norm=0.5",
          "optimizer.group_pattern=[\"*.bias\"]", "optimizer.group_weight_decay=[0.0]",
          "schedule.kind=\"warmup_cosine\"", "schedule.unit=\"step\"", "schedule.warmup=5"}) {
      all.insert(all.end(), {"--set", set});
    }
    if (!resume.empty()) all.push_back("--resume=" + resume);
    return all;
  };
  const std::string whole = scratch.file("whole"), resumed = scratch.file("resumed");
  ASSERT_EQ(classify(2, arguments(whole)).exit_code, 0);
  const Finished run = classify(2, arguments(resumed, whole + "/checkpoints/step-00000027.h5"));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  expect_same_end(whole, resumed);
  EXPECT_NE(read_file(whole + "/metrics.jsonl").find("\"grad_norm\":"), std::string::npos);
}

TEST(Resume, OfAFinishedRunHasNothingToDoAndReportsIt) {
  const ScratchFolder scratch;
  ASSERT_EQ(classify(1, small_run(scratch.file("run"))).exit_code, 0);
  const Json before = Json::parse(read_file(scratch.file("run/summary.json")));
  const Finished again = classify(1, small_run(scratch.file("run"), {"--resume"}));
  ASSERT_EQ(again.exit_code, 0);
  EXPECT_TRUE(again.says("nothing to train: all 4 epochs are done. For more, raise train.epochs."))
      << again.output;
  const Json after = Json::parse(read_file(scratch.file("run/summary.json")));
  for (const char* figure : {"test_loss", "samples_per_s", "first_step_s", "wall_s"})
    EXPECT_EQ(before.at(figure), after.at(figure)) << figure;
  EXPECT_TRUE(after.at("completed").get<bool>());
}

TEST(Resume, WithAnotherKindOfOptimizerNamesBoth) {
  const ScratchFolder scratch;
  ASSERT_EQ(classify(1, small_run(scratch.file("run"), {"--set", "train.epochs=1"})).exit_code, 0);
  const Finished other =
      classify(1, small_run(scratch.file("run"), {"--resume", "--set", "optimizer.kind=\"adam\""}));
  EXPECT_EQ(other.exit_code, 2) << other.output;
  EXPECT_TRUE(
      other.says("the deck says optimizer.kind = \"adam\", but the checkpoint was written "
                 "with \"sgd\""))
      << other.output;
}

TEST(Resume, OnAnotherNumberOfRanksIsPossible) {
  const ScratchFolder scratch;
  ASSERT_EQ(classify(3, saving_every_three_steps(scratch.file("three"))).exit_code, 0);
  const Finished run = classify(
      2,
      saving_every_three_steps(scratch.file("two"),
                               {"--resume=" + scratch.file("three/checkpoints/step-00000027.h5")}));
  EXPECT_EQ(run.exit_code, 0) << run.output;
}

TEST(Resume, WithNothingThereStartsFromTheBeginningAndSaysSo) {
  const ScratchFolder scratch;
  const Finished run =
      classify(1, small_run(scratch.file("run"), {"--resume", "--set", "train.epochs=1"}));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.says("nothing to resume")) << run.output;
}

TEST(Resume, WithAnotherSeedIsRefusedNamingBoth) {
  const ScratchFolder scratch;
  ASSERT_EQ(classify(1, small_run(scratch.file("run"), {"--set", "train.epochs=1"})).exit_code, 0);
  const Finished run =
      classify(1, small_run(scratch.file("run"), {"--resume", "--set", "train.seed=7"}));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(run.says("train.seed = 7") && run.says("1234")) << run.output;
}

TEST(Stop, BySignalSavesAndIsExitCode75AndResumesToTheSameBits) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), stopped = scratch.file("stopped");
  ASSERT_EQ(classify(2, small_run(whole)).exit_code, 0);
  const Finished cut = interrupted("usr1", small_run(stopped));
  ASSERT_EQ(cut.exit_code, 75) << cut.output;
  EXPECT_FALSE(completed(stopped));
  ASSERT_EQ(classify(2, small_run(stopped, {"--resume"})).exit_code, 0);
  expect_same_end(whole, stopped);
}

}  // namespace
}  // namespace lockstep::test
