#include <lockstep/train/run/run_folder.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <support/message_of.hpp>
#include <support/process.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/train/run/resume.hpp>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

/// Wherever it is noticed: a rename in a missing folder fails like one on a bad disk.
TEST(RunFolder, AFailureInAFolderThatIsLostIsThatItIsLost) {
  const test::ScratchFolder scratch;
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    const std::string dir = scratch.file("run");
    const RunFolder folder = RunFolder::open(group, {.dir = dir, .stop_before_limit_s = 0}, false);
    const auto write = [&](const char* name) {
      folder.write_in([&] { folder.write(name, "text"); });
    };
    write("there");
    EXPECT_TRUE(fs::exists(dir + "/there"));
    try {
      write("no/such/folder");
      FAIL() << "written";
    } catch (const CheckpointError& error) {
      FAIL() << error.what();
    } catch (const std::exception&) {  // its own failure, as long as the folder exists
    }
    fs::rename(dir, dir + ".away");
    try {
      write("gone");
      FAIL() << "written";
    } catch (const CheckpointError& error) {
      EXPECT_NE(std::string(error.what()).find("was removed, moved or given to another run"),
                std::string::npos)
          << error.what();
    }
  });
}

TEST(RunFolder, WritesAFileWholeInPlaceOfALinkAndNothingElse) {
  const test::ScratchFolder scratch;
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    const std::string dir = scratch.file("run"), elsewhere = scratch.write("elsewhere", "theirs");
    const RunFolder folder = RunFolder::open(group, {.dir = dir, .stop_before_limit_s = 0}, false);
    const auto files = [&] { return std::distance(fs::directory_iterator(dir), {}); };
    const auto before = files();
    fs::create_symlink(elsewhere, dir + "/a");
    for (const Durability durability : {Durability::crash_of_machine, Durability::end_of_process}) {
      folder.write("a", "mine", durability);
      EXPECT_EQ(read_file(dir + "/a"), "mine");
    }
    EXPECT_EQ(read_file(elsewhere), "theirs");
    EXPECT_EQ(files(), before + 1);
    fs::create_directory(dir + "/b");
    const std::string said = test::message_of<FileError>([&] { folder.write("b", "mine"); });
    EXPECT_NE(said.find(dir + "/b"), std::string::npos) << said;
    EXPECT_EQ(files(), before + 2);
  });
}

TEST(RunFolder, WhoseCheckpointsAreAFileOrALinkToNothingIsRefused) {
  const test::ScratchFolder scratch;
  fs::create_directory(scratch.file("linked"));
  fs::create_symlink(scratch.file("none"), scratch.file("linked/checkpoints"));
  scratch.write("file/checkpoints", "");
  for (const std::string& dir : {scratch.file("linked"), scratch.file("file")}) {
    std::string said;
    run_ranks_as_threads(1, [&](ProcessGroup& group) {
      said = test::message_of<Error>([&] {
        static_cast<void>(RunFolder::open(group, {.dir = dir, .stop_before_limit_s = 0}, true));
      });
    });
    EXPECT_NE(said.find(dir + "/checkpoints is neither a folder"), std::string::npos) << said;
    EXPECT_FALSE(fs::exists(dir + "/run.lock"));
  }
}

// --resume=FILE of another run, into the folder of a run that saved nothing.
TEST(RunFolder, MetricsOfARunWithoutCheckpointsAreKeptWhereAnotherRunGoesOn) {
  const test::ScratchFolder scratch;
  fs::create_directories(scratch.file("other/checkpoints"));
  std::ofstream(scratch.file("other/metrics.jsonl")) << "the other's\n";
  const fs::path from = scratch.file("other/checkpoints/step-00000004.h5");
  std::ofstream(from) << "a checkpoint";
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    const RunFolder folder =
        RunFolder::open(group, {.dir = scratch.file("run"), .stop_before_limit_s = 0}, true);
    keep_metrics_of_branch(folder, from);
    EXPECT_FALSE(fs::exists(folder.file("metrics.abandoned.1.jsonl"))) << "there are none";
    for (const char* number : {"1", "2"}) {
      std::ofstream(folder.file("metrics.jsonl")) << number;
      keep_metrics_of_branch(folder, from);
    }
    EXPECT_EQ(read_file(folder.file("metrics.abandoned.1.jsonl")), "1");
    EXPECT_EQ(read_file(folder.file("metrics.abandoned.2.jsonl")), "2");
    // Its own history is not another branch's.
    const fs::path own = folder.checkpoints() / "best.h5";
    std::ofstream(own) << "a checkpoint";
    keep_metrics_of_branch(folder, own);
    EXPECT_FALSE(fs::exists(folder.file("metrics.abandoned.3.jsonl")));
  });
}

}  // namespace
}  // namespace lockstep::train
