// A disk that is full for one save of a run, for one row of its metrics, or for the files of other
// tools, and has space again for the next; or stays full.
#include <gtest/gtest.h>

#include <apps/small_run.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <lockstep/base/host.hpp>
#include <lockstep/io/atomic_file.hpp>

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

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// The records of an event file: 8 bytes of length, 4 of a checksum, the data, 4 of a checksum. -1
/// if it ends within one.
int records_in(const std::string& events) {
  int records = 0;
  for (std::size_t at = 0; at != events.size(); ++records) {
    std::uint64_t length = 0;
    if (events.size() - at < 16) return -1;
    std::memcpy(&length, events.data() + at, sizeof length);
    if (length > events.size() - at - 16) return -1;
    at += 16 + length;
  }
  return records;
}

/// 40 steps of 0.1 s on two ranks with all logs, on a disk that is full from the moment that `full`
/// holds for the run folder $run. The shell then does `meanwhile`; $said is the run's output. The
/// run folder is in scratch/kept.
Finished on_a_full_disk(const ScratchFolder& scratch, const std::string& full,
                        const std::string& meanwhile) {
  const std::string disk = scratch.file("disk");
  std::filesystem::create_directory(disk);
  std::vector<std::string> more;
  for (const char* key : {"log.every_steps=1", "log.ranks=true", "log.tensorboard=true",
                          "log.prometheus=true", "log.histogram_every_steps=5"})
    more.insert(more.end(), {"--set", key});
  return in_namespace("mount -t tmpfs -o size=4m tmpfs " + disk + "; run=" + disk +
                      "/run said=" + scratch.file("said") + "; export MISBEHAVE_PACE=100\n(" +
                      quoted(app(2, "tests/apps/misbehave", small_run(disk + "/run", more))) +
                      "; echo exit=$?) >$said 2>&1 &\nuntil " + full +
                      "; do sleep 0.02; done\ndd if=/dev/zero of=" + disk +
                      "/fill bs=1k count=9999 2>/dev/null\n" + meanwhile + "\nwait; cat $said; " +
                      "rm -f " + disk + "/fill; cp -r $run " + scratch.file("kept") + "; " +
                      built("apps/lockstep") + " checkpoint verify $run/checkpoints/*.h5");
}

TEST(DiskRoom, ForFilesOfOtherToolsIsOneWarningEachAndTheFilesAreWholeAfterwards) {
  if (in_namespace("true").exit_code != 0) GTEST_SKIP() << "this machine forbids user namespaces";
  const ScratchFolder scratch;
  const std::vector<std::string> warnings{
      "TensorBoard's files in ", "metrics.prom: No space left",
      "/logs/rank-0000." + host_name() + ".log is not complete: "};
  std::string all_are_said;
  for (const std::string& warning : warnings)
    all_are_said += "grep -q -F \"" + warning + "\" $said && ";
  const Finished finished = on_a_full_disk(scratch, "[ -s $run/metrics.jsonl ]",
                                           "until grep -q exit= $said || { " + all_are_said +
                                               "true; }; do sleep 0.02; done; rm $run/../fill");
  EXPECT_TRUE(finished.says("exit=0\n")) << finished.output;
  for (const std::string& warning : warnings)
    EXPECT_EQ(times(finished.output, warning), 1U) << warning << finished.output;
  EXPECT_TRUE(finished.says("step-00000040.h5: good")) << finished.output;
  EXPECT_FALSE(finished.says("damaged")) << finished.output;
  const std::filesystem::path kept = scratch.file("kept");
  // Its two heads, 40 steps, 4 epochs, 4 evaluations, the deck, and 8 times histograms.
  for (const auto& file : std::filesystem::directory_iterator(kept / "tensorboard"))
    EXPECT_EQ(records_in(read_file(file.path())), 2 + 40 + 4 + 4 + 1 + 8) << finished.output;
  EXPECT_EQ(times(read_file(kept / "metrics.prom"), "\nlockstep_running{"), 1U);
  for (const auto& file : std::filesystem::directory_iterator(kept))
    EXPECT_TRUE(AtomicFile::published_name_of(file.path().filename().string()).empty()) << file;
  for (const auto& file : std::filesystem::directory_iterator(kept / "logs")) {
    const std::string text = read_file(file.path());
    EXPECT_TRUE(text.ends_with("this rank ends: all is done\n")) << text;
    EXPECT_EQ(times(text, " ms, of them forward "), 40U) << text;
  }
}

TEST(DiskRoom, ThatStaysAwayCostsTheLastSaveButNoEarlierCheckpoint) {
  if (in_namespace("true").exit_code != 0) GTEST_SKIP() << "this machine forbids user namespaces";
  const ScratchFolder scratch;
  const Finished finished =
      on_a_full_disk(scratch, "[ -e $run/checkpoints/step-00000010.h5 ]", ":");
  EXPECT_TRUE(finished.says("exit=4\n")) << finished.output;
  EXPECT_EQ(times(finished.output, "misbehave: the final checkpoint could not be saved: "), 1U)
      << finished.output;
  EXPECT_TRUE(finished.says("step-00000010.h5: good")) << finished.output;
  EXPECT_EQ(times(finished.output, "TensorBoard's files in "), 1U) << finished.output;
  EXPECT_EQ(times(finished.output, "metrics.prom: No space left"), 1U) << finished.output;
}

}  // namespace
}  // namespace lockstep::test
