// Ownership of a run folder, and the loss of it during a run.
#include <gtest/gtest.h>
#include <signal.h>

#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// Takes some seconds, without a checkpoint before its end.
std::vector<std::string> longer_run(const std::string& dir, std::vector<std::string> more = {}) {
  std::vector<std::string> options{"--set", "train.epochs=100",
                                   "--set", "checkpoint.every_epochs=100",
                                   "--set", "log.every_steps=50"};
  options.insert(options.end(), more.begin(), more.end());
  return small_run(dir, options);
}
/// A run that the test must end.
std::vector<std::string> endless_run(const std::string& dir, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"--set", "train.epochs=1000000"});
  return longer_run(dir, more);
}

std::future<Finished> start(const std::vector<std::string>& arguments) {
  return std::async(std::launch::async, [=] { return classify(2, arguments); });
}

bool says_a_step(const std::string& dir) {
  std::ifstream in(dir + "/metrics.jsonl");
  return in.peek() != std::ifstream::traits_type::eof();
}

void wait_for_steps(const std::string& dir) {
  for (int i = 0; i < 6000 && !says_a_step(dir); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(says_a_step(dir)) << "the run in " << dir << " has not begun";
}

int owner_of(const std::string& dir) {
  std::ifstream in(dir + "/run.lock");
  std::string key, value;
  while (in >> key && std::getline(in, value)) {
    if (key == "process") return std::stoi(value);
  }
  return 0;
}

bool is_completed(const std::string& dir) {
  return read_file(dir + "/summary.json").find("\"completed\": true") != std::string::npos;
}

StateDict final_model(const std::string& dir) {
  return load_checkpoint(dir + "/checkpoints/step-00001000.h5").model;
}

TEST(RunFolder, IsGivenToOneOfTwoRunsThatStartAtOnceAndTheOtherIsRefused) {
  const ScratchFolder scratch;
  const std::string alone = scratch.file("alone"), both = scratch.file("both");
  ASSERT_EQ(classify(2, longer_run(alone)).exit_code, 0);
  int completed = 0, late = 0;
  while (completed < 5 + 2 * late) {
    // From the second round on both find an earlier run that they move aside.
    std::array<std::future<Finished>, 2> started{start(longer_run(both)), start(longer_run(both))};
    std::array<Finished, 2> runs{started[0].get(), started[1].get()};
    if (runs[0].exit_code != 0) std::swap(runs[0], runs[1]);
    if (runs[1].exit_code == 0 &&
        late < 3) {  // on a busy machine it may start after the other has ended
      ++late;
      completed += 2;
      continue;
    }
    EXPECT_EQ(runs[0].exit_code, 0) << runs[0].output;
    EXPECT_EQ(runs[1].exit_code, 2) << runs[1].output;
    EXPECT_TRUE(runs[1].says("another run is using the run folder " + both + ": process "))
        << runs[1].output;
    EXPECT_TRUE(is_completed(both));
    EXPECT_EQ(results(both), results(alone));
    expect_same_bits(final_model(both), final_model(alone));
    EXPECT_FALSE(fs::exists(both + "/run.lock"));
    EXPECT_EQ(fs::exists(both + "." + std::to_string(completed)), completed > 0);
    EXPECT_FALSE(fs::exists(both + "." + std::to_string(completed + 1)));
    ++completed;
  }
}

TEST(RunFolder, OfAKilledRunIsTakenOver) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  for (const bool resume : {true, false}) {
    auto run = start(endless_run(dir, {"--set", "checkpoint.every_steps=20"}));
    ASSERT_NO_FATAL_FAILURE(wait_for_steps(dir));
    while (!newest_good_checkpoint(dir + "/checkpoints"))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const Finished refused = classify(1, longer_run(dir, {"--resume"}));
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    const int owner = owner_of(dir);
    ASSERT_GT(owner, 0);
    EXPECT_TRUE(refused.says("process " + std::to_string(owner) + " on ")) << refused.output;
    ASSERT_EQ(kill(owner, SIGKILL), 0);
    EXPECT_NE(run.get().exit_code, 0);
    ASSERT_TRUE(fs::exists(dir + "/run.lock"));

    std::vector<std::string> again{"--set", "run.max_minutes=0.01"};
    if (resume) again.emplace_back("--resume");
    const Finished next = classify(2, endless_run(dir, again));
    EXPECT_EQ(next.exit_code, 75) << next.output;
    EXPECT_TRUE(next.says("process " + std::to_string(owner)) &&
                next.says("took over the run folder"))
        << next.output;
    EXPECT_EQ(next.says("resumed from"), resume) << next.output;
    EXPECT_FALSE(fs::exists(dir + "/run.lock"));
    EXPECT_FALSE(fs::exists(dir + ".1/run.lock"));
    if (resume) fs::remove_all(dir);
  }
}

TEST(RunFolder, OfAKilledRunLeavesNoRingsBehindOnceItIsResumed) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run"), rings = scratch.file("rings");
  fs::create_directory(rings);
  const auto count = [&] { return std::distance(fs::directory_iterator(rings), {}); };
  const std::vector<std::string> there{"--set", "flight.dir=\"" + rings + "\""};
  auto run = start(endless_run(dir, there));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(dir));
  kill(owner_of(dir), SIGKILL);
  static_cast<void>(run.get());
  ASSERT_GT(count(), 0) << "evidence";
  auto again = there;
  again.emplace_back("--resume");
  EXPECT_EQ(classify(2, small_run(dir, again)).exit_code, 0);
  EXPECT_EQ(count(), 0);
}

TEST(RunFolder, ThatIsRemovedOrMovedOrReplacedEndsTheRunSoonWithExitCodeFour) {
  const ScratchFolder scratch;
  for (const std::string fault : {"removed", "moved", "replaced"}) {
    const std::string dir = scratch.file(fault), away = dir + ".away";
    auto run = start(endless_run(dir));
    ASSERT_NO_FATAL_FAILURE(wait_for_steps(dir));
    if (fault == "removed") {
      fs::remove_all(dir);
    } else {
      fs::rename(dir, away);
    }
    if (fault == "replaced") fs::create_directories(dir + "/checkpoints");
    const auto then = std::chrono::steady_clock::now();
    const Finished finished = run.get();
    EXPECT_LT(std::chrono::steady_clock::now() - then, std::chrono::seconds(60));
    EXPECT_EQ(finished.exit_code, 4) << finished.output;
    EXPECT_TRUE(finished.says("the run folder " + dir + " was removed, moved or given to another"))
        << finished.output;
    EXPECT_FALSE(fs::exists(away) && is_completed(away));
    EXPECT_FALSE(fs::exists(dir + "/summary.json"));
  }
}

TEST(RunFolder, ThatHoldsTheProgramsOwnFolderIsRefused) {
  const ScratchFolder scratch;
  fs::create_directories(scratch.file("a/b"));
  fs::create_directory_symlink(scratch.file("a"), scratch.file("link"));
  std::ofstream(scratch.file("a/deck.toml")) << "an earlier run's\n";
  for (const std::string dir : {".", "/", "..", "../", "b/..", "//", "../../a", "../../link"}) {
    auto command = app(2, "apps/classify", small_run(dir));
    std::string line = "cd '" + scratch.file("a/b") + "'; exec";
    if (dir == "b/..") line = "cd '" + scratch.file("a") + "'; exec";
    for (const auto& word : command) line += " '" + word + "'";
    const Finished finished = run({"sh", "-c", line});
    EXPECT_EQ(finished.exit_code, 2) << dir << "\n" << finished.output;
    EXPECT_TRUE(finished.says("run.dir = \"" + dir + "\" is the working directory"))
        << finished.output;
  }
  EXPECT_TRUE(fs::exists(scratch.file("a/deck.toml")));
  EXPECT_FALSE(fs::exists(scratch.file("a.1")));
  EXPECT_FALSE(fs::exists(scratch.file("link.1")));
}

TEST(RunFolder, HasFilesOfItsOwnWhereLinksElsewhereStand) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run"), mine = scratch.write("mine", "untouched");
  ASSERT_EQ(classify(2, small_run(dir, {"--set", "train.epochs=1"})).exit_code, 0);
  for (const char* name : {"log.txt", "curves.svg", "curves.gp", "summary.json"}) {
    fs::remove(dir + "/" + name);
    fs::create_symlink(mine, dir + "/" + name);
  }
  fs::create_symlink(mine, dir + "/stop");  // nothing asked this run to stop
  const Finished resumed = classify(2, small_run(dir, {"--set", "train.epochs=2", "--resume"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_TRUE(is_completed(dir));
  EXPECT_EQ(read_file(mine), "untouched");
  EXPECT_NE(read_file(dir + "/log.txt").find("resumed from"), std::string::npos);
  EXPECT_NE(read_file(dir + "/curves.svg").find("<svg"), std::string::npos);
}

TEST(RunFolder, ThatIsASymbolicLinkIsFollowed) {
  const ScratchFolder scratch;
  const std::string target = scratch.file("target"), link = scratch.file("link");
  fs::create_directory_symlink("target", link);
  const Finished dangling = classify(1, small_run(link));
  EXPECT_EQ(dangling.exit_code, 2) << dangling.output;
  EXPECT_TRUE(dangling.says("is a symbolic link to target, which does not exist"))
      << dangling.output;
  fs::create_directory(target);
  for (int round = 0; round < 2; ++round) {
    const Finished finished =
        classify(2, small_run(link + (round == 0 ? "" : "/"), {"--set", "train.epochs=1"}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_TRUE(is_completed(target));
    EXPECT_EQ(fs::exists(target + ".1"), round == 1) << "the earlier run, moved aside";
    EXPECT_FALSE(fs::exists(link + ".1"));
  }
}

}  // namespace
}  // namespace lockstep::test
