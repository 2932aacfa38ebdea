// A disk that is full for one save of a run, or for one row of its metrics, and has space again for
// the next.
#include <gtest/gtest.h>

#include <apps/small_run.hpp>
#include <filesystem>

namespace lockstep::test {
namespace {

Finished in_namespace(const std::string& script) {
  return run({"unshare", "-Urm", "sh", "-c", script});
}

TEST(DiskRoom, ForTheSaveAfterTheOneThatFailedEndsTheRunWithZeroAndAGoodCheckpoint) {
  if (in_namespace("true").exit_code != 0) GTEST_SKIP() << "this machine forbids user namespaces";
  const ScratchFolder scratch;
  const std::string disk = scratch.file("disk");
  std::filesystem::create_directory(disk);
  // Saves at steps 10, 20 and 30; the disk is full for the one at step 20.
  std::string train;
  for (const auto& word :
       app(2, "tests/apps/room_again", small_run(disk + "/run", {"--set", "train.epochs=3"})))
    train += "'" + word + "' ";
  const Finished finished = in_namespace(
      "mount -t tmpfs -o size=4m tmpfs " + disk + " && export ROOM_IN=" + disk + " && " + train +
      "; echo exit=$?; ls " + disk + "/run/checkpoints; " + built("apps/lockstep") +
      " checkpoint verify " + disk + "/run/checkpoints/step-00000030.h5");
  EXPECT_TRUE(finished.says("exit=0")) << finished.output;
  const std::string sentence = "step-00000020.h5 was not written";
  const auto said = finished.output.find(sentence);
  EXPECT_NE(said, std::string::npos) << finished.output;
  EXPECT_EQ(finished.output.find(sentence, said + 1), std::string::npos) << finished.output;
  EXPECT_TRUE(finished.says("No space left on device") && finished.says("The run goes on."))
      << finished.output;
  EXPECT_TRUE(finished.says("step-00000010.h5\nstep-00000030.h5\n")) << finished.output;
  EXPECT_TRUE(finished.says("good")) << finished.output;
}

TEST(DiskRoom, ForARowOfMetricsLaterThanItsStepLosesNeitherRowNorRun) {
  if (in_namespace("true").exit_code != 0) GTEST_SKIP() << "this machine forbids user namespaces";
  const ScratchFolder scratch;
  const std::string disk = scratch.file("disk"), said = scratch.file("said"),
                    rows = disk + "/run/metrics.jsonl";
  std::filesystem::create_directory(disk);
  const std::string train = quoted(
      app(2, "tests/apps/misbehave", small_run(disk + "/run", {"--set", "log.every_steps=1"})));
  // Full from the first row until one write has failed; the program reports that elsewhere.
  const Finished finished = in_namespace(
      "mount -t tmpfs -o size=4m tmpfs " + disk + " && export MISBEHAVE_PACE=100\n(" + train +
      "; echo exit=$?) >" + said + " 2>&1 & until [ -s " + rows + " ]; do sleep 0.02; done\n" +
      "dd if=/dev/zero of=" + disk + "/fill bs=1k count=9999 2>/dev/null\n" + "until grep -q -e '" +
      rows + ": No space left on device' -e exit= " + said + "; do sleep 0.02; done\n" + "rm " +
      disk + "/fill; wait; cat " + said + "; echo rows=$(wc -l <" + rows + ")");
  EXPECT_TRUE(finished.says("exit=0")) << finished.output;
  EXPECT_TRUE(finished.says("metrics.jsonl: No space left on device")) << finished.output;
  EXPECT_TRUE(finished.says("rows=48\n")) << finished.output;  // 40 steps, 4 epochs, 4 evaluations
}

}  // namespace
}  // namespace lockstep::test
