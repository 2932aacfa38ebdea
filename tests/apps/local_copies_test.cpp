// A killed run with copies of its state in memory (checkpoint.local_steps) resumes from them.
#include <gtest/gtest.h>

#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// A run that saves a file only at its end, and a copy in `memory` after every fourth step.
std::vector<std::string> with_copies(const std::string& dir, const std::string& memory,
                                     std::vector<std::string> more = {}) {
  auto arguments =
      small_run(dir, {"--set", "checkpoint.every_epochs=4", "--set", "checkpoint.local_steps=4",
                      "--set", "checkpoint.local_dir=\"" + memory + "\""});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// Rank 1 kills itself in its 23rd step; each step has so many forward passes.
void kill_one(const std::vector<std::string>& arguments, int passes = 1, int ranks = 2) {
  const Finished run =
      lockstep::test::run(app(ranks, "tests/apps/misbehave", arguments),
                          {{"MISBEHAVE", "kill 1 " + std::to_string(23 * passes)}});
  ASSERT_NE(run.exit_code, 0) << run.output;
}

auto files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

void expect_same_last_save(const std::string& a, const std::string& b) {
  const char* last = "/checkpoints/step-00000040.h5";
  expect_same_state(load_checkpoint(a + last), load_checkpoint(b + last));
}

class LocalCopiesOfARun : public testing::Test {
 protected:
  LocalCopiesOfARun() { fs::create_directories(memory); }

  const ScratchFolder scratch;
  const std::string dir = scratch.file("run"), memory = scratch.file("memory");
};

TEST_F(LocalCopiesOfARun, AKilledRunGoesOnFromTheNewestToTheSameBits) {
  const std::string whole = scratch.file("whole");
  ASSERT_EQ(classify(2, small_run(whole)).exit_code, 0);
  kill_one(with_copies(dir, memory));
  EXPECT_EQ(files_in(memory), 2);
  const Finished rest = classify(2, with_copies(dir, memory, {"--resume"}));
  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(rest.says("step-00000020.h5 at step 20")) << rest.output;
  expect_same_last_save(whole, dir);
  EXPECT_EQ(results(whole), results(dir));
  EXPECT_EQ(files_in(memory), 0);
  EXPECT_FALSE(fs::exists(dir + "/checkpoints/local"));
}

TEST_F(LocalCopiesOfARun, OfDevicesGoOnOnTheHostToTheSameBits) {
  const auto on = [](const std::string& device) {
    return std::vector<std::string>{"--set", "run.device=\"" + device + '"', "--set",
                                    "run.layout=\"plain\""};
  };
  const std::string whole = scratch.file("whole");
  ASSERT_EQ(classify(2, small_run(whole, on("cpu"))).exit_code, 0);
  kill_one(with_copies(dir, memory, on("sim")));
  auto resumed = with_copies(dir, memory, on("cpu"));
  resumed.push_back("--resume");
  const Finished rest = classify(2, resumed);
  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(rest.says("step-00000020.h5 at step 20")) << rest.output;
  expect_same_last_save(whole, dir);
}

TEST_F(LocalCopiesOfARun, InvariantOnAnotherNumberOfRanksToTheSameBits) {
  const std::vector<std::string> invariant{"--set", "train.reduction=\"invariant\"", "--set",
                                           "train.shards=6"};
  const std::string whole = scratch.file("whole");
  ASSERT_EQ(classify(3, small_run(whole, invariant)).exit_code, 0);
  kill_one(with_copies(dir, memory, invariant), 3);
  auto resumed = with_copies(dir, memory, invariant);
  resumed.push_back("--resume");
  const Finished rest = classify(3, resumed);
  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(rest.says("at step 20")) << rest.output;
  expect_same_last_save(whole, dir);
}

/// Removes the copies of node `node` of the last start.
void lose_node(const fs::path& memory, int node) {
  int lost = 0;
  for (const auto& file : fs::directory_iterator(memory)) {
    const std::string name = file.path().filename();  // lockstep-local-START-NODE-N.h5
    if (name.ends_with("-" + std::to_string(node) + "-0.h5") ||
        name.ends_with("-" + std::to_string(node) + "-1.h5"))
      lost += fs::remove(file.path()) ? 1 : 0;
  }
  EXPECT_EQ(lost, 2);
}

TEST_F(LocalCopiesOfARun, OfADividedModelOutliveALostNodeAndGoOnToTheSameBits) {
  const std::vector<std::vector<std::string>> kinds{
      {"train.zero=1"},
      {"model.kind=\"mlp\"", "mesh.tp=2"},
      {"ddp.comm_hook=\"power_sgd\""},
  };
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    std::vector<std::string> settings{"--set", "comm.pretended_nodes=[1, 1]"};
    for (const std::string& set : kinds[kind]) settings.insert(settings.end(), {"--set", set});
    const std::string whole = scratch.file("whole" + std::to_string(kind)),
                      killed = dir + std::to_string(kind);
    good(classify(2, small_run(whole, settings)));
    kill_one(with_copies(killed, memory, settings));
    EXPECT_EQ(files_in(memory), 4) << kinds[kind][0];
    lose_node(memory, static_cast<int>(kind % 2));
    auto resumed = with_copies(killed, memory, settings);
    resumed.push_back("--resume");
    const Finished rest = classify(2, resumed);
    ASSERT_EQ(rest.exit_code, 0) << rest.output;
    EXPECT_TRUE(rest.says("step-00000020.h5 at step 20")) << kinds[kind][0] << rest.output;
    expect_same_last_save(whole, killed);
    EXPECT_EQ(files_in(memory), 0);
  }
}

TEST_F(LocalCopiesOfARun, WithTwoNodesInARowLostTheRunGoesOnFromTheFileSystem) {
  const std::vector<std::string> settings{"--set", "train.zero=1",
                                          "--set", "comm.pretended_nodes=[1, 1, 1]",
                                          "--set", "checkpoint.every_steps=11",
                                          "--set", "checkpoint.async=false"};
  kill_one(with_copies(dir, memory, settings), 1, 3);
  // Newer than the file of step 22: the ranks have killed themselves before.
  fs::remove(dir + "/checkpoints/step-00000022.h5");
  for (const int node : {1, 2}) lose_node(memory, node);
  auto resumed = with_copies(dir, memory, settings);
  resumed.push_back("--resume");
  const Finished rest = classify(3, resumed);
  EXPECT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(rest.says("the copy of step 20 in") &&
              rest.says("is whole in none of the 1 copies that are left"))
      << rest.output;
  EXPECT_TRUE(rest.says("at step 11")) << rest.output;
}

TEST_F(LocalCopiesOfARun, TheFileSystemsNewerCheckpointWins) {
  kill_one(with_copies(dir, memory,
                       {"--set", "checkpoint.every_steps=11", "--set", "checkpoint.async=false"}));
  const Finished rest = classify(2, with_copies(dir, memory, {"--resume"}));
  EXPECT_TRUE(rest.says("at step 22")) << rest.output;
}

TEST_F(LocalCopiesOfARun, WithTheMemoryLostTheRunGoesOnFromTheFileSystem) {
  kill_one(with_copies(dir, memory,
                       {"--set", "checkpoint.every_steps=11", "--set", "checkpoint.async=false"}));
  fs::remove_all(memory);
  const Finished rest = classify(2, with_copies(dir, memory, {"--resume"}));
  EXPECT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(rest.says("at step 22")) << rest.output;
  EXPECT_TRUE(rest.says("are gone: its nodes") &&
              rest.says("The run resumes from step-00000022.h5"))
      << rest.output;
}

TEST_F(LocalCopiesOfARun, OfAnotherSeedOrModelAreRefusedBeforeTheyAreCheckpoints) {
  kill_one(with_copies(dir, memory));
  for (const auto& [setting, code, sentence] :
       {std::tuple{"train.seed=77", 2, "the deck says train.seed = 77"},
        std::tuple{"model.kind=\"mlp\"", 4, "does not fit the deck's model"}}) {
    const Finished refused = classify(2, with_copies(dir, memory, {"--resume", "--set", setting}));
    EXPECT_EQ(refused.exit_code, code) << refused.output;
    EXPECT_TRUE(refused.says("a copy of step 20 in") && refused.says(sentence)) << refused.output;
    EXPECT_FALSE(fs::exists(dir + "/checkpoints/step-00000020.h5"));
    EXPECT_EQ(files_in(memory), 2) << "they are still the run's";
  }
  const Finished rest = classify(2, with_copies(dir, memory, {"--resume"}));
  EXPECT_TRUE(rest.says("at step 20")) << rest.output;
}

TEST_F(LocalCopiesOfARun, AResumeFromAnEarlierFileFindsTheCopyAmongAbandonedCheckpoints) {
  kill_one(with_copies(dir, memory, {"--set", "checkpoint.every_steps=9"}));
  const Finished rest =
      classify(2, with_copies(dir, memory, {"--resume=" + dir + "/checkpoints/step-00000009.h5"}));
  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(rest.says("at step 9")) << rest.output;
  EXPECT_TRUE(fs::exists(dir + "/checkpoints/abandoned.1/step-00000020.h5")) << rest.output;
}

// The copy has the step of best.h5, whose name does not show it.
TEST_F(LocalCopiesOfARun, AResumeFromTheBestAbandonsNothingOfItsBranch) {
  kill_one(with_copies(dir, memory,
                       {"--set", "checkpoint.every_steps=10", "--set", "checkpoint.async=false"}));
  const std::string checkpoints = dir + "/checkpoints/", best = checkpoints + "best.h5";
  fs::create_hard_link(checkpoints + "step-00000020.h5", best);
  const Finished rest = classify(2, with_copies(dir, memory, {"--resume=" + best}));
  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(rest.says("at step 20")) << rest.output;
  EXPECT_FALSE(rest.says("abandoned")) << rest.output;
  EXPECT_TRUE(fs::exists(checkpoints + "step-00000010.h5")) << rest.output;
}

TEST_F(LocalCopiesOfARun, ANewRunInTheSameFolderTakesNothingOfIt) {
  kill_one(with_copies(dir, memory));
  const Finished anew = classify(2, with_copies(dir, memory));
  EXPECT_EQ(anew.exit_code, 0) << anew.output;
  EXPECT_FALSE(anew.says("resumed")) << anew.output;
  // A folder moved aside can still be resumed.
  const Finished old = classify(2, with_copies(dir + ".1", memory, {"--resume"}));
  EXPECT_TRUE(old.says("at step 20")) << old.output;
}

TEST_F(LocalCopiesOfARun, ThatCannotBeWrittenToTheRunFolderStaysAndTheRunSaysSo) {
  kill_one(with_copies(dir, memory));
  const std::string in_the_way = dir + "/checkpoints/step-00000020.h5/folder";
  fs::create_directories(in_the_way);
  const Finished refused = classify(2, with_copies(dir, memory, {"--resume"}));
  EXPECT_EQ(refused.exit_code, 4) << refused.output;
  EXPECT_TRUE(refused.says("copy of step 20") && refused.says("The copy stays where it is"))
      << refused.output;
  EXPECT_EQ(files_in(memory), 2);
  fs::remove_all(fs::path(in_the_way).parent_path());
  const Finished rest = classify(2, with_copies(dir, memory, {"--resume"}));
  EXPECT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(rest.says("at step 20")) << rest.output;
}

TEST_F(LocalCopiesOfARun, StaysWhenACopyOfTheRunFolderHasGoneOnFromIt) {
  kill_one(with_copies(dir, fs::relative(memory).string()));
  fs::copy(dir, dir + "-copy", fs::copy_options::recursive);
  for (const std::string& folder : {dir + "-copy", dir}) {
    EXPECT_EQ(files_in(memory), 2);
    const Finished rest =
        classify(2, with_copies(folder, memory, {"--set", "checkpoint.local_steps=0", "--resume"}));
    EXPECT_EQ(rest.exit_code, 0) << rest.output;
    EXPECT_TRUE(rest.says("at step 20")) << rest.output;
  }
  EXPECT_EQ(files_in(memory), 0) << "the run's own";
}

TEST_F(LocalCopiesOfARun, NoteSaysWhereTheyAreWhateverTheWorkingDirectory) {
  kill_one(with_copies(dir, fs::relative(memory).string()));
  EXPECT_NE(read_file(dir + "/checkpoints/local").find(" /"), std::string::npos);
}

TEST_F(LocalCopiesOfARun, AStopLeavesAFileAndNothingInMemory) {
  const Finished run = lockstep::test::run(app(2, "tests/apps/misbehave", with_copies(dir, memory)),
                                           {{"MISBEHAVE", "usr1 1 23"}});
  EXPECT_EQ(run.exit_code, 75) << run.output;
  EXPECT_EQ(files_in(memory), 0);
}

TEST_F(LocalCopiesOfARun, WithoutAPlaceForThemTheRunSaysSoAndGoesOn) {
  std::ofstream(memory + "/file") << "no folder";
  const Finished run = classify(2, with_copies(dir, memory + "/file/folder"));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(run.says("no copies of the state are kept")) << run.output;
}

}  // namespace
}  // namespace lockstep::test
