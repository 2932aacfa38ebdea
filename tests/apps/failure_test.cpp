// Bad luck: a rank that fails, dies or stops where the others cannot know; a disk that fills.
#include <gtest/gtest.h>

#include <apps/small_run.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

using Json = nlohmann::json;

Finished misbehave(int ranks, const std::string& order, const std::vector<std::string>& arguments) {
  return run(app(ranks, "tests/apps/misbehave", arguments), {{"MISBEHAVE", order}});
}

TEST(LoneFailure, OfAnExceptionBetweenTwoCollectivesEndsAllRanksWithThatRanksMessage) {
  const ScratchFolder scratch;
  const Finished finished = misbehave(3, "throw 1 7", small_run(scratch.file("run")));
  EXPECT_EQ(finished.exit_code, 3) << finished.output;
  EXPECT_TRUE(finished.says("rank 1 of 3")) << finished.output;
  EXPECT_TRUE(finished.says("misbehaving on purpose")) << finished.output;
  EXPECT_LT(finished.seconds, 5.0);
}

TEST(LoneFailure, LossThatBecomesNanIsExitCodeOneNamingStepAndRemedy) {
  const ScratchFolder scratch;
  const Finished finished = misbehave(2, "nan 1 7", small_run(scratch.file("run")));
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_TRUE(finished.says("nan at step 7") && finished.says("optimizer.lr")) << finished.output;
  EXPECT_FALSE(
      Json::parse(read_file(scratch.file("run/summary.json"))).at("completed").get<bool>());
}

TEST(LoneFailure, NanIsTrainedThroughWhereTheDeckSaysSo) {
  const ScratchFolder scratch;
  const Finished finished =
      misbehave(2, "nan 1 7", small_run(scratch.file("run"), {"--set", "train.on_nan=\"ignore\""}));
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
}

TEST(LoneFailure, OfARankThatStopsAnsweringIsATimeOutWithExitCodeThree) {
  const ScratchFolder scratch;
  const Finished finished =
      misbehave(2, "stop 1 7", small_run(scratch.file("run"), {"--set", "comm.timeout=1.5"}));
  EXPECT_EQ(finished.exit_code, 3) << finished.output;
  EXPECT_TRUE(finished.says("rank 0 of 2")) << finished.output;
  EXPECT_LT(finished.seconds, 6.0);
}

TEST(LoneFailure, OfARankThatDiesEndsTheOthersAndTheRunIsNotCompleted) {
  const ScratchFolder scratch;
  const Finished killed = misbehave(2, "kill 1 7", small_run(scratch.file("killed")));
  EXPECT_NE(killed.exit_code, 0) << killed.output;
  EXPECT_LT(killed.seconds, 5.0);
  EXPECT_FALSE(
      Json::parse(read_file(scratch.file("killed/summary.json"))).at("completed").get<bool>());
  // mpiexec may call this a success; the run's own marker does not.
  const Finished left =
      misbehave(2, "exit0 1 7", small_run(scratch.file("left"), {"--set", "comm.timeout=2"}));
  EXPECT_LT(left.seconds, 6.0);
  EXPECT_FALSE(
      Json::parse(read_file(scratch.file("left/summary.json"))).at("completed").get<bool>());
}

// A run folder on a file system of 384 KiB: room for the first checkpoint (about 220 KB), not for
// two.
Finished run_on_small_disk(const std::string& script) {
  return run({"unshare", "-Urm", "sh", "-c", script}, {}, 60);
}

std::string quoted(const std::vector<std::string>& command) {
  std::string line;
  for (const auto& word : command) line += "'" + word + "' ";
  return line;
}

TEST(DiskFull, DuringARunFailsTheSaveInOneSentenceAndTheRunGoesOn) {
  if (run_on_small_disk("true").exit_code != 0)
    GTEST_SKIP() << "this machine forbids user namespaces";
  const ScratchFolder scratch;
  const std::string dir = scratch.file("disk");
  std::filesystem::create_directory(dir);
  // Epoch 1 is saved; then a file fills the disk and goes again when the run is over; the last save
  // fails.
  const auto train =
      app(2, "apps/classify",
          small_run(dir + "/run", {"--set", "checkpoint.keep=0", "--set", "train.epochs=3"}));
  const Finished finished = run_on_small_disk(
      "mount -t tmpfs -o size=160k tmpfs " + dir + " && " + quoted(train) + "; echo exit=$?; ls " +
      dir + "/run/checkpoints; " + built("apps/lockstep") + " checkpoint verify " + dir +
      "/run/checkpoints/step-00000010.h5");
  EXPECT_TRUE(finished.says("exit=4")) << finished.output;
  EXPECT_TRUE(finished.says("epoch 3/3")) << "the run went on\n" << finished.output;
  EXPECT_TRUE(finished.says("The run goes on.")) << finished.output;
  EXPECT_TRUE(finished.says("final checkpoint could not be saved")) << finished.output;
  EXPECT_TRUE(finished.says("good")) << "the earlier checkpoint verifies\n" << finished.output;
  EXPECT_FALSE(finished.says("step-00000030.h5\n")) << "nothing half written is left\n"
                                                    << finished.output;
  EXPECT_FALSE(finished.says(".tmp\n")) << finished.output;
}

}  // namespace
}  // namespace lockstep::test
