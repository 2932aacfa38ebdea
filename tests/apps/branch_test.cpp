// A run resumed from a checkpoint other than its newest: its saves, kept files and later resumes.
#include <gtest/gtest.h>

#include <apps/small_run.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

/// A run of `epochs` epochs of 10 steps with a save after every fourth step and at the end.
std::vector<std::string> saving_every_four_steps(const std::string& dir, int epochs, int keep,
                                                 std::vector<std::string> more = {}) {
  auto arguments =
      small_run(dir, {"--set", "checkpoint.every_steps=4", "--set", "checkpoint.every_epochs=0",
                      "--set", "checkpoint.keep=" + std::to_string(keep), "--set",
                      "train.epochs=" + std::to_string(epochs)});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// The steps of the checkpoints in `folder`, newest first; each of them verifies.
Steps good_steps(const std::string& folder) {
  Steps steps;
  for (const auto& path : list_checkpoints(folder)) {
    EXPECT_NO_THROW(verify_checkpoint(path)) << path;
    steps.push_back(load_checkpoint(path).train.step);
  }
  return steps;
}

TEST(Branch, ResumedFromAnOlderCheckpointKeepsItsOwnAndAPlainResumeContinuesIt) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run"), checkpoints = dir + "/checkpoints";
  ASSERT_EQ(classify(2, saving_every_four_steps(dir, 4, 0)).exit_code, 0);
  ASSERT_EQ(good_steps(checkpoints), (Steps{40, 36, 32, 28, 24, 20, 16, 12, 8, 4}));

  const Finished branch = classify(
      2, saving_every_four_steps(dir, 2, 3, {"--resume=" + checkpoints + "/step-00000008.h5"}));
  ASSERT_EQ(branch.exit_code, 0) << branch.output;
  EXPECT_EQ(good_steps(checkpoints), (Steps{20, 16, 12}));
  EXPECT_EQ(good_steps(checkpoints + "/abandoned.1"), (Steps{40, 36, 32, 28, 24, 20, 16, 12}));
  EXPECT_TRUE(branch.says("abandoned") && branch.says(checkpoints + "/abandoned.1"))
      << branch.output;
  EXPECT_TRUE(branch.says("checkpoint  " + checkpoints + "/step-00000020.h5")) << branch.output;

  const Finished rest = classify(2, saving_every_four_steps(dir, 3, 3, {"--resume"}));
  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(rest.says("resumed from " + checkpoints + "/step-00000020.h5")) << rest.output;
  EXPECT_EQ(good_steps(checkpoints), (Steps{30, 28, 24}));
}

/// The steps of metrics.jsonl's "epoch" rows in `folder`.
Steps steps_of_epochs(const std::string& folder) {
  Steps steps;
  std::ifstream in(folder + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row["kind"] == "epoch") steps.push_back(row["step"]);
  }
  return steps;
}

TEST(Branch, HasItsOwnMetricsAndTheAbandonedOneKeepsIts) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run"), checkpoints = dir + "/checkpoints";
  ASSERT_EQ(classify(1, saving_every_four_steps(dir, 3, 0)).exit_code, 0);
  const std::string whole = read_file(dir + "/metrics.jsonl");
  ASSERT_EQ(classify(1, saving_every_four_steps(dir, 2, 0,
                                                {"--set", "log.every_steps=1",
                                                 "--resume=" + checkpoints + "/step-00000008.h5"}))
                .exit_code,
            0);
  EXPECT_EQ(steps_of_epochs(dir), (Steps{10, 20}));
  EXPECT_EQ(read_file(checkpoints + "/abandoned.1/metrics.jsonl"), whole);

  const Finished back =
      classify(1, saving_every_four_steps(
                      dir, 4, 0, {"--resume=" + checkpoints + "/abandoned.1/step-00000030.h5"}));
  ASSERT_EQ(back.exit_code, 0) << back.output;
  EXPECT_FALSE(back.says("again")) << back.output;
  EXPECT_EQ(steps_of_epochs(dir), (Steps{10, 20, 30, 40}));
  EXPECT_TRUE(read_file(dir + "/metrics.jsonl").starts_with(whole)) << "none of the other's";
  EXPECT_EQ(steps_of_epochs(checkpoints + "/abandoned.2"), (Steps{10, 20}));
}

TEST(Branch, KeepsItsMetricsWhereCheckpointsLieOnAnotherDisk) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run"), elsewhere = scratch.file("elsewhere");
  fs::create_directories(dir);
  fs::create_directories(elsewhere);
  fs::create_directory_symlink(elsewhere, dir + "/checkpoints");
  ASSERT_EQ(classify(1, saving_every_four_steps(dir, 2, 0)).exit_code, 0);
  const std::string before = read_file(dir + "/metrics.jsonl");
  ASSERT_EQ(classify(1, saving_every_four_steps(dir, 3, 0, {"--resume"})).exit_code, 0);
  EXPECT_EQ(steps_of_epochs(dir), (Steps{10, 20, 30}));
  EXPECT_TRUE(read_file(dir + "/metrics.jsonl").starts_with(before));
}

TEST(Branch, InAnotherFolderWithNothingLeftToDoIsSavedThereAndGoesOn) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), dir = scratch.file("run");
  ASSERT_EQ(classify(1, saving_every_four_steps(whole, 2, 0)).exit_code, 0);
  const Finished nothing_left = classify(
      1,
      saving_every_four_steps(dir, 1, 0, {"--resume=" + whole + "/checkpoints/step-00000012.h5"}));
  ASSERT_EQ(nothing_left.exit_code, 0) << nothing_left.output;
  EXPECT_EQ(good_steps(dir + "/checkpoints"), Steps{12});
  const Finished rest = classify(1, saving_every_four_steps(dir, 2, 0, {"--resume"}));
  EXPECT_TRUE(rest.says("at step 12")) << rest.output;
  EXPECT_EQ(steps_of_epochs(dir), (Steps{10, 20}));
}

TEST(Branch, IsGoneOnWithThoughTheRunWasKilledBeforeItSavedAnything) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run"), checkpoints = dir + "/checkpoints";
  ASSERT_EQ(classify(2, saving_every_four_steps(dir, 2, 0)).exit_code, 0);
  const auto from_eight =
      saving_every_four_steps(dir, 2, 1, {"--resume=" + checkpoints + "/step-00000008.h5"});
  ASSERT_NE(run(app(2, "tests/apps/misbehave", from_eight), {{"MISBEHAVE", "kill 1 2"}}).exit_code,
            0);
  EXPECT_EQ(good_steps(checkpoints), (Steps{8, 4})) << "nothing of its past was removed";
  const Finished rest = classify(2, saving_every_four_steps(dir, 2, 1, {"--resume"}));
  EXPECT_TRUE(rest.says("resumed from " + checkpoints + "/step-00000008.h5")) << rest.output;
  EXPECT_EQ(good_steps(checkpoints), (Steps{20}));
}

TEST(Branch, FromAnotherRunsCheckpointAbandonsAllThatTheFolderHolds) {
  const ScratchFolder scratch;
  const std::string mine = scratch.file("mine"), other = scratch.file("other");
  ASSERT_EQ(classify(1, saving_every_four_steps(mine, 1, 0)).exit_code, 0);
  ASSERT_EQ(classify(1, saving_every_four_steps(other, 1, 0)).exit_code, 0);
  const Finished run = classify(
      1,
      saving_every_four_steps(mine, 1, 3, {"--resume=" + other + "/checkpoints/step-00000004.h5"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(good_steps(mine + "/checkpoints"), (Steps{10, 8}));
  EXPECT_EQ(good_steps(mine + "/checkpoints/abandoned.1"), (Steps{10, 8, 4}));
  EXPECT_EQ(good_steps(other + "/checkpoints"), (Steps{10, 8, 4}));
}

TEST(Branch, AFileThatDoesNotVerifyIsNotCountedAmongTheKept) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run"), checkpoints = dir + "/checkpoints";
  ASSERT_EQ(classify(1, saving_every_four_steps(dir, 1, 1)).exit_code, 0);
  std::ofstream(checkpoints + "/step-00000999.h5") << "junk";
  const Finished run = classify(1, saving_every_four_steps(dir, 2, 1, {"--resume"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.says("checkpoint  " + checkpoints + "/step-00000020.h5")) << run.output;
  EXPECT_EQ(good_steps(checkpoints), (Steps{20}));
}

TEST(Branch, WithoutCheckpointsIsDistinguishedFromARunThatNeverSaved) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run"), checkpoints = dir + "/checkpoints";
  fs::create_directories(checkpoints + "/abandoned.1");
  std::ofstream(checkpoints + "/abandoned.1/step-00000008.h5") << "x";
  const Finished run = classify(1, saving_every_four_steps(dir, 1, 1, {"--resume"}));
  EXPECT_EQ(run.exit_code, 4) << run.output;
  EXPECT_TRUE(run.says("abandoned.1") && run.says("--resume=FILE")) << run.output;
}

class SameSamples : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(SameSamples, AreAskedForInTheMiddleOfAnEpochOnly) {
  const auto& [key, other] = GetParam();
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  ASSERT_EQ(classify(1, saving_every_four_steps(dir, 1, 0)).exit_code, 0);
  const auto resumed = [&](int step) {
    return classify(
        1, saving_every_four_steps(dir, 2, 0,
                                   {"--set", std::string(key) + "=" + other,
                                    "--resume=" + dir + "/checkpoints/step-000000" +
                                        (step < 10 ? "0" : "") + std::to_string(step) + ".h5"}));
  };
  const Finished refused = resumed(8);
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_TRUE(refused.says(std::string(key) + " = " + other)) << refused.output;
  EXPECT_TRUE(refused.says("--set " + std::string(key) + "=")) << refused.output;
  EXPECT_EQ(good_steps(dir + "/checkpoints"), (Steps{10, 8, 4})) << "refused, so nothing is moved";
  const Finished accepted = resumed(10);
  EXPECT_EQ(accepted.exit_code, 0) << accepted.output;
}

INSTANTIATE_TEST_SUITE_P(Keys, SameSamples,
                         testing::Values(std::pair("data.shuffle", "false"),
                                         std::pair("data.shuffle_window", "64"),
                                         std::pair("data.synthetic_seed", "9"),
                                         std::pair("data.synthetic_noise", "0.25")),
                         [](const auto& tested) {
                           std::string name = tested.param.first;
                           return name.replace(name.find('.'), 1, "_");
                         });

}  // namespace
}  // namespace lockstep::test
