// SIGKILL at random moments of a program that only saves.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <checkpoint/sample.hpp>
#include <lockstep/base/philox.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/io/atomic_file.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const char* tool() {
  const char* path = std::getenv("LOCKSTEP_CHECKPOINT_TOOL");
  if (!path) throw Error("LOCKSTEP_CHECKPOINT_TOOL is not set");
  return path;
}

/// Starts the loop on `folder`, waits for so many saves and then for `delay`, kills it, and returns
/// the last step that it announced as saved.
std::int64_t run_and_kill(const fs::path& folder, int saves, std::chrono::microseconds delay) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw Error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl(tool(), tool(), "loop", folder.c_str(), "2", nullptr);
    _exit(127);
  }
  close(ends[1]);
  FILE* out = fdopen(ends[0], "r");
  long long step = -1;
  for (int save = 0; save < saves; ++save) {
    if (std::fscanf(out, "%lld", &step) != 1) ADD_FAILURE() << "the loop ended by itself";
  }
  std::this_thread::sleep_for(delay);
  kill(child, SIGKILL);
  for (long long next = 0; std::fscanf(out, "%lld", &next) == 1;) step = next;
  std::fclose(out);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the loop ended by itself";
  return step;
}

TEST(KilledWhileSaving, LeavesEveryPublishedCheckpointGoodAndTheLastOneAnnouncedIsThere) {
  const auto folder = test::scratch("kill");
  PhiloxSequence random(5, 6);
  int caught_in_the_act = 0;
  for (int round = 0; round < 20 || (caught_in_the_act == 0 && round < 100); ++round) {
    // It has verified the earlier files by the first two, which may take longer than the delay on a
    // busy machine.
    const int saves = 1 + round % 3;
    const auto announced =
        run_and_kill(folder, saves, std::chrono::microseconds(random.below(40'000)));
    const auto paths = list_checkpoints(folder);
    ASSERT_FALSE(paths.empty());
    for (const auto& path : paths) EXPECT_NO_THROW(verify_checkpoint(path)) << path;
    const auto newest = newest_good_checkpoint(folder);
    ASSERT_TRUE(newest.has_value());
    EXPECT_EQ(*newest, paths.front());
    // It may have been killed between the rename and the announcement.
    EXPECT_GE(load_checkpoint(*newest).train.step, announced);
    for (const auto& file : fs::directory_iterator(folder))
      caught_in_the_act += file.path().extension() == AtomicFile::temporary_suffix ? 1 : 0;
  }
  EXPECT_GT(caught_in_the_act, 0) << "no kill came in the middle of a save";
}

/// A call in a save that kills its process, and the step of the newest good checkpoint afterwards.
struct Death {
  const char* call;
  int nth;
  std::int64_t newest;
};

/// 8 MiB per tensor in slabs of 4 MiB: some ten writes, three fsyncs of files and one of the
/// folder.
TEST(KilledWhileSaving, InEachPartOfAnAsynchronousSaveLeavesTheNewestPublishedOneGood) {
  for (const Death& death : {Death{"stage", 1, 1}, Death{"pwrite", 1, 1}, Death{"pwrite", 6, 1},
                             Death{"pwrite", 10, 1}, Death{"fsync", 1, 1}, Death{"fsync", 2, 1},
                             Death{"rename", 1, 1}, Death{"renamed", 1, 2}, Death{"fsync", 3, 2}}) {
    const std::string moment = std::string(death.call) + " " + std::to_string(death.nth);
    const auto folder = test::scratch("kill-at");
    const pid_t child = fork();
    if (child == 0) {
      execl(tool(), tool(), "die", folder.c_str(), "8", death.call,
            std::to_string(death.nth).c_str(), nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << moment << " did not come";
    const auto newest = newest_good_checkpoint(folder);
    ASSERT_TRUE(newest.has_value()) << moment;
    EXPECT_EQ(load_checkpoint(*newest).train.step, death.newest) << moment;
    EXPECT_EQ(list_checkpoints(folder).front(), *newest) << moment;
  }
}

}  // namespace
}  // namespace lockstep
