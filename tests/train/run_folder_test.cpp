#include <lockstep/train/run/run_folder.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <support/message_of.hpp>
#include <support/process.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/train/run/assignment.hpp>
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

/// What opening the folder says; empty if it is opened.
std::string refusal(const std::string& dir, bool resume, const std::vector<fs::path>& reads = {}) {
  std::string said;
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    try {
      const auto folder =
          RunFolder::open(group, {.dir = dir, .stop_before_limit_s = 0}, resume, reads);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
      said = error.what();
    }
  });
  return said;
}

TEST(RunFolder, WithADeckThatNoRunWroteIsRefusedAndStaysAsItIs) {
  const test::ScratchFolder scratch;
  const std::string dir = scratch.file("mine"), deck = scratch.write("mine/deck.toml", "a deck");
  scratch.write("mine/metrics.jsonl", "mine, too");
  for (const bool resume : {false, true}) {
    EXPECT_EQ(refusal(dir, resume),
              "run.dir = \"" + dir +
                  "\" holds files that no run wrote (deck.toml): a run needs a folder of its own. "
                  "Name another with --set 'run.dir=\"...\"'.");
  }
  EXPECT_EQ(read_file(deck), "a deck");
  EXPECT_FALSE(fs::exists(dir + ".1"));
  EXPECT_FALSE(fs::exists(dir + "/run.lock"));
}

TEST(RunFolder, WithFilesThatTheRunReadsIsRefusedButForARunsOwnDeck) {
  const test::ScratchFolder scratch;
  const std::string dir = scratch.file("run"),
                    table = scratch.write("run/data/a.csv", "x,y\n1,2\n");
  fs::create_directory_symlink(dir, scratch.file("link"));
  for (const bool resume : {false, true}) {
    for (const std::string& name : {table, scratch.file("link/data/a.csv")}) {
      const std::string said = refusal(dir, resume, {scratch.file("other"), name});
      EXPECT_NE(said.find("holds files that this run reads (data/a.csv)"), std::string::npos)
          << said;
    }
    EXPECT_NE(refusal(dir, resume, {dir + "/"}).find("is a folder that this run reads"),
              std::string::npos);
    EXPECT_EQ(refusal(dir, resume, {scratch.file("runs"), scratch.file("run.csv")}), "");
  }
  const std::string deck = scratch.write("run/deck.toml", "# hash 0123456789abcdef\n");
  EXPECT_EQ(refusal(dir, /*resume=*/true, {deck}), "");
  EXPECT_EQ(refusal(dir, /*resume=*/false, {deck}), "");
  EXPECT_TRUE(fs::exists(dir + ".1/deck.toml")) << "repeated";
}

TEST(RunFolder, OfARunThatEndedEarlyIsMovedAside) {
  const test::ScratchFolder scratch;
  int number = 0;
  for (const char* file : {"deck.toml", "metrics.jsonl", "checkpoints/step-00000001.h5"}) {
    scratch.write("run/" + std::string(file), "# hash 0123456789abcdef\n");
    EXPECT_EQ(refusal(scratch.file("run"), false), "") << file;
    EXPECT_TRUE(fs::exists(scratch.file("run." + std::to_string(++number)) + "/" + file)) << file;
  }
  EXPECT_EQ(refusal(scratch.file("run"), false), "");
  EXPECT_FALSE(fs::exists(scratch.file("run.4"))) << "an empty folder is taken as it is";
}

TEST(RunFolder, FilesThatARunReadsAreItsDeckAndItsData) {
  const test::ScratchFolder scratch;
  const std::string a = scratch.write("a.csv", ""), b = scratch.write("b.csv", "");
  EXPECT_EQ(files_read_by("deck.toml", "[data]\npath = [\"" + scratch.file("*.csv") +
                                           "\"]\ntest_path = \"" + a + "\"\n"),
            (std::vector<fs::path>{"deck.toml", a, b, a}));
  EXPECT_EQ(files_read_by("deck.toml", "[data]\npath = \"auto\"\n"),
            std::vector<fs::path>{"deck.toml"});
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
