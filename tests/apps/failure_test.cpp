// A rank that fails, dies or stops without the others' knowledge; a full disk.
#include <gtest/gtest.h>

#include <algorithm>

#include <apps/fault.hpp>
#include <apps/results.hpp>
#include <apps/small_run.hpp>
#include <filesystem>
#include <lockstep/io/atomic_file.hpp>

namespace lockstep::test {
namespace {

void expect_soon(const Fault& fault) {
  EXPECT_GT(fault.seconds, 0.0) << "the fault never came\n" << fault.finished.output;
  EXPECT_LT(fault.seconds, soon_s) << fault.finished.output;
}

// Below 165 MiB the system's loader fails, with 127, or OpenBLAS's initialiser, with a SIGINT. Once
// the program has begun it ends with a sentence and 1, or the run completes: never a death by
// signal or a hang.
TEST(LittleAddressSpace, IsASentenceAndExitCodeOneAtAnySize) {
  const ScratchFolder scratch;
  int refused = 0, done = 0;
  for (int i = 0; i < 30; ++i) {
    const int mib = 170 + 50 * i;
    const std::string dir = scratch.file("run" + std::to_string(mib));
    auto command = app(2, "apps/classify", small_run(dir, {"--set", "train.epochs=1"}));
    if (i % 3 == 0)
      command = {built("apps/lockstep"), "deck", "check", source("inputs/synthetic.toml")};
    if (i % 3 == 1) {
      command = small_run(dir, {"--set", "train.epochs=1", "--ranks-as-threads", "2"});
      command.insert(command.begin(), built("apps/classify"));
    }
    std::string line = "ulimit -v " + std::to_string(mib * 1024) + "; exec";
    for (const auto& word : command) line += " '" + word + "'";
    const Finished finished = run({"sh", "-c", line}, {}, 60);
    EXPECT_TRUE(finished.exit_code == 0 || finished.exit_code == 1 || finished.exit_code == 127)
        << mib << " MiB: " << finished.exit_code << "\n"
        << finished.output;
    EXPECT_TRUE(finished.exit_code != 1 || finished.says("out of memory")) << finished.output;
    refused += finished.exit_code == 1 ? 1 : 0;
    done += finished.exit_code == 0 ? 1 : 0;
  }
  EXPECT_GT(refused, 5);
  EXPECT_GT(done, 5);
}

// The other one is in MPI_Init then, and would wait there until comm.timeout.
TEST(LittleAddressSpace, OfOneRankEndsTheOthersToo) {
  const ScratchFolder scratch;
  auto command = app(2, "apps/classify", small_run(scratch.file("run")));
  const auto program = std::ranges::find(command, built("apps/classify"));
  ASSERT_NE(program, command.end());
  const std::string limit = "[ \"$PMI_RANK\" = 1 ] && ulimit -v 716800; exec \"$@\"";
  const std::vector<std::string> shell{"sh", "-c", limit, "sh"};
  command.insert(program, shell.begin(), shell.end());
  const Finished finished = run(command, {}, 60);
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_TRUE(finished.says("out of memory: the limit on this process's address space"))
      << finished.output;
}

TEST(LoneFailure, OfAnExceptionBetweenTwoCollectivesEndsAllRanksWithThatRanksMessage) {
  const ScratchFolder scratch;
  const Fault fault = misbehave(3, "throw 1 7", small_run(scratch.file("run")));
  const Finished& finished = fault.finished;
  EXPECT_EQ(finished.exit_code, 3) << finished.output;
  EXPECT_TRUE(finished.says("rank 1 of 3")) << finished.output;
  EXPECT_TRUE(finished.says("an injected fault")) << finished.output;
  expect_soon(fault);
}

TEST(LoneFailure, LossThatBecomesNanIsExitCodeOneNamingStepAndRemedy) {
  const ScratchFolder scratch;
  const Finished finished = misbehave(2, "nan 1 7", small_run(scratch.file("run"))).finished;
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_TRUE(finished.says("nan at step 7") && finished.says("optimizer.lr")) << finished.output;
  EXPECT_FALSE(completed(scratch.file("run")));
}

TEST(LoneFailure, NanIsTrainedThroughWhereTheDeckSaysSo) {
  const ScratchFolder scratch;
  const Fault fault =
      misbehave(2, "nan 1 7", small_run(scratch.file("run"), {"--set", "train.on_nan=\"ignore\""}));
  EXPECT_EQ(fault.finished.exit_code, 0) << fault.finished.output;
  EXPECT_GT(fault.seconds, 0.0) << "there was no NaN";
}

TEST(LoneFailure, OfARankThatStopsAnsweringIsATimeOutWithExitCodeThree) {
  const ScratchFolder scratch;
  const Fault fault = misbehave(2, "stop 1 7", small_run(scratch.file("run"), with_timeout));
  EXPECT_EQ(fault.finished.exit_code, 3) << fault.finished.output;
  EXPECT_TRUE(fault.finished.says("rank 0 of 2")) << fault.finished.output;
  EXPECT_GE(fault.seconds, least_wait_s);
  expect_soon(fault);
}

TEST(LoneFailure, OfARankThatDiesEndsTheOthersAndTheRunIsNotCompleted) {
  const ScratchFolder scratch;
  const Fault killed = misbehave(2, "kill 1 7", small_run(scratch.file("killed")));
  EXPECT_NE(killed.finished.exit_code, 0) << killed.finished.output;
  expect_soon(killed);
  EXPECT_FALSE(completed(scratch.file("killed")));
  // mpiexec may report success; the run's own marker does not.
  const Fault left = misbehave(2, "exit0 1 7", small_run(scratch.file("left"), with_timeout));
  expect_soon(left);
  EXPECT_FALSE(completed(scratch.file("left")));
}

// A run folder on a file system of 384 KiB: room for one checkpoint (about 220 KB), not for two.
Finished run_on_small_disk(const std::string& script) {
  return run({"unshare", "-Urm", "sh", "-c", script}, {}, 60);
}

TEST(DiskFull, DuringARunFailsTheSaveInOneSentenceAndTheRunGoesOn) {
  if (run_on_small_disk("true").exit_code != 0)
    GTEST_SKIP() << "this machine forbids user namespaces";
  const ScratchFolder scratch;
  const std::string dir = scratch.file("disk");
  std::filesystem::create_directory(dir);
  // Epoch 1 is saved; then a file fills the disk until the run has ended; the last save fails.
  const auto train =
      app(2, "apps/classify",
          small_run(dir + "/run", {"--set", "checkpoint.keep=0", "--set", "train.epochs=3"}));
  const std::string checkpoints = dir + "/run/checkpoints";
  const std::string half_written = checkpoints + "/half" + AtomicFile::temporary_suffix;
  const std::string count = "echo half written: $(ls " + checkpoints + " | grep -c '" +
                            AtomicFile::temporary_suffix + "$')";
  const Finished finished = run_on_small_disk(
      "mount -t tmpfs -o size=160k tmpfs " + dir + " && " + quoted(train) + "; echo exit=$?; ls " +
      checkpoints + "; " + built("apps/lockstep") + " checkpoint verify " + checkpoints +
      "/step-00000010.h5; " + count + "; : >" + half_written + "; " + count);
  EXPECT_TRUE(finished.says("exit=4")) << finished.output;
  EXPECT_TRUE(finished.says("epoch 3/3")) << "the run went on\n" << finished.output;
  EXPECT_TRUE(finished.says("The run goes on.")) << finished.output;
  EXPECT_TRUE(finished.says("final checkpoint could not be saved")) << finished.output;
  EXPECT_TRUE(finished.says("good")) << "the earlier checkpoint verifies\n" << finished.output;
  EXPECT_FALSE(finished.says("step-00000030.h5\n")) << finished.output;
  EXPECT_TRUE(finished.says("half written: 0\n")) << finished.output;
  EXPECT_TRUE(finished.says("half written: 1\n")) << "one would be seen\n" << finished.output;
}

TEST(DiskFull, ForMetricsToTheEndIsAWarningAndThenExitCodeOneWithTheReason) {
  if (run_on_small_disk("true").exit_code != 0)
    GTEST_SKIP() << "this machine forbids user namespaces";
  const ScratchFolder scratch;
  const std::string dir = scratch.file("disk");
  std::filesystem::create_directory(dir);
  const auto train = app(
      2, "apps/classify",
      small_run(dir + "/run", {"--set", "checkpoint.every_epochs=0", "--set", "train.epochs=100"}));
  const Finished finished = run_on_small_disk("mount -t tmpfs -o size=40k tmpfs " + dir + " && " +
                                              quoted(train) + "; echo exit=$?");
  EXPECT_TRUE(finished.says("exit=1\n")) << finished.output;
  EXPECT_TRUE(finished.says("epoch 100/100")) << "the run went on\n" << finished.output;
  const std::string sentence = "metrics.jsonl: No space left on device";
  const auto warned = finished.output.find(sentence);
  ASSERT_NE(warned, std::string::npos) << finished.output;
  EXPECT_EQ(finished.output.find(": free space there, or use another file system. The run goes on",
                                 warned),
            warned + sentence.size())
      << finished.output;
  const auto in_the_end = finished.output.find(sentence, warned + 1);
  ASSERT_NE(in_the_end, std::string::npos) << finished.output;
  EXPECT_EQ(finished.output.find(sentence, in_the_end + 1), std::string::npos) << finished.output;
  EXPECT_FALSE(finished.says("LOG ERROR")) << finished.output;
}

}  // namespace
}  // namespace lockstep::test
