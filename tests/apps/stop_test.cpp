// Signals at any moment after MPI_Init began, time limits, a file `stop`; a limit on the size of
// files.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <apps/fault.hpp>
#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <lockstep/base/philox.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

/// A process of the run that has `mark` in its environment and has installed a handler for SIGUSR1.
struct Listener {
  pid_t pid, parent;
  std::string program;
};

std::vector<Listener> listeners(const std::string& mark) {
  std::vector<Listener> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    Listener process{};
    if (std::from_chars(name.data(), name.data() + name.size(), process.pid).ec != std::errc())
      continue;
    if (read_of_process(entry.path() / "environ").find(mark) == std::string::npos) continue;
    std::error_code gone;
    process.program = fs::read_symlink(entry.path() / "exe", gone).filename();
    std::uint64_t caught = 0;
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigCgt:")) caught = std::stoull(line.substr(7), nullptr, 16);
      if (line.starts_with("PPid:")) process.parent = std::stoi(line.substr(5));
    }
    if (((caught >> (SIGUSR1 - 1)) & 1U) != 0) found.push_back(process);
  }
  return found;
}

enum class To { all_ranks, one_rank, launcher };

/// The process to signal; none until both ranks have their handlers, which App::run installs before
/// MPI_Init.
std::vector<pid_t> targets(const std::string& mark, To to) {
  std::vector<pid_t> ranks, launcher;
  for (const Listener& process : listeners(mark)) {
    if (process.program == "classify" || process.program == "misbehave")
      ranks.push_back(process.pid);
    if (process.parent == getpid()) launcher.push_back(process.pid);
  }
  if (ranks.size() < 2) return {};
  if (to == To::one_rank) return {ranks.front()};
  return to == To::launcher ? launcher : ranks;
}

struct Signals {
  int number;
  milliseconds delay;  ///< after all ranks have handlers for the first
  int count;
  To to;
  milliseconds apart{5};
  std::string after;  ///< a file that is not empty by then; with misbehave, its mark
};

/// Trains on two ranks and sends `signals` at their moments. With an `order` runs the program
/// misbehave, as described in misbehave.cpp.
Finished signalled(const std::vector<std::string>& arguments, const Signals& signals,
                   const std::string& order = "") {
  static int number = 0;
  const std::string mark =
      "STOP_TEST=" + std::to_string(getpid()) + "." + std::to_string(++number) + ".";
  std::atomic<bool> ended{false};
  std::thread sender([&] {
    std::vector<pid_t> processes;
    while (processes.empty()) {
      if (ended) return;
      std::this_thread::sleep_for(milliseconds(1));
      processes = targets(mark, signals.to);
    }
    std::error_code none;
    const auto is_there = [&](const std::string& file) {
      const auto bytes = fs::file_size(file, none);
      return !none && bytes > 0;
    };
    while (!signals.after.empty() && !is_there(signals.after)) {
      if (ended) return;
      std::this_thread::sleep_for(milliseconds(1));
    }
    std::this_thread::sleep_for(signals.delay);
    for (int i = 0; i < signals.count; ++i) {
      for (const pid_t process : processes) kill(process, signals.number);
      std::this_thread::sleep_for(signals.apart);
    }
  });
  const auto split = mark.find('=');
  const std::string program = order.empty() ? "apps/classify" : "tests/apps/misbehave";
  Finished finished =
      run(app(2, program, arguments), {{mark.substr(0, split), mark.substr(split + 1)},
                                       {"MISBEHAVE", order},
                                       {"MISBEHAVE_MARK", signals.after}});
  ended = true;
  sender.join();
  return finished;
}

TEST(Stop, AtAnyMomentFromMpiInitOnSavesAndIsExitCode75AndResumes) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  PhiloxSequence random(11, 12);
  std::int64_t last = 0;
  // A run on a busy machine may not have reached its first step by then: others have more time.
  for (int round = 0; round < 20 || (round < 25 && last == 0); ++round) {
    const Signals signals{round % 2 == 0 ? SIGTERM : SIGUSR1,
                          milliseconds(round < 16   ? round * 25
                                       : round < 20 ? 100 + random.below(500)
                                                    : 1000 << (round - 20)),
                          round % 3 == 0 ? 1 : 12, round % 4 < 2 ? To::all_ranks : To::one_rank};
    const Finished run = signalled(small_run(dir, {"--resume", "--set", "train.epochs=4000",
                                                   "--set", "log.every_steps=100000"}),
                                   signals);
    ASSERT_EQ(run.exit_code, 75) << "round " << round << ", " << signals.delay.count() << " ms\n"
                                 << run.output;
    EXPECT_LT(run.seconds, 2 * soon_s);
    if (const auto newest = newest_good_checkpoint(dir + "/checkpoints")) {
      const std::int64_t step = load_checkpoint(*newest).train.step;
      EXPECT_GE(step, last);
      EXPECT_TRUE(last == 0 || run.says("resumed from")) << run.output;
      last = step;
    }
  }
  EXPECT_GT(last, 0) << "no run came to its first step";
}

TEST(Stop, OfAProcessThatNoLauncherStartedSaves) {
  const ScratchFolder scratch;
  for (const int number : {SIGUSR1, SIGTERM}) {
    const std::string dir = scratch.file("run" + std::to_string(number));
    std::thread sender([&] {
      std::error_code none;
      const auto steps = [&] {  // the file exists before the first one
        const auto bytes = fs::file_size(dir + "/metrics.jsonl", none);
        return !none && bytes > 0;
      };
      for (int i = 0; i < 24'000 && !steps(); ++i) std::this_thread::sleep_for(milliseconds(5));
      for (const Listener& process : listeners("STOP_TEST=alone")) kill(process.pid, number);
    });
    std::vector<std::string> command = small_run(dir, {"--set", "train.epochs=4000"});
    command.insert(command.begin(), built("apps/classify"));
    const Finished run = lockstep::test::run(command, {{"STOP_TEST", "alone"}});
    sender.join();
    EXPECT_EQ(run.exit_code, 75) << run.output;
    EXPECT_TRUE(newest_good_checkpoint(dir + "/checkpoints")) << run.output;
  }
}

TEST(Stop, WhileARunEndsIsACompletedRunOrExitCode75) {
  const ScratchFolder scratch;
  for (int round = 0; round < 4; ++round) {
    const std::string dir = scratch.file("run" + std::to_string(round));
    const auto arguments = small_run(dir, {"--set", "train.epochs=3"});
    const Finished run =
        signalled(arguments, {SIGTERM, milliseconds(150 + 60 * round), 40, To::all_ranks});
    EXPECT_TRUE(run.exit_code == 0 || run.exit_code == 75) << run.exit_code << run.output;
    auto again = arguments;
    again.push_back("--resume");
    EXPECT_EQ(classify(2, again).exit_code, 0);
    EXPECT_EQ(load_checkpoint(dir + "/checkpoints/step-00000030.h5").train.step, 30);
  }
}

// MPICH's mpiexec passes the signal on, and may itself return 0, or fail with a signal that arrives
// when its ranks have just ended.
TEST(Stop, OfTheLauncherReachesTheRanksWhichSave) {
  for (int round = 0; round < 4; ++round) {
    const ScratchFolder scratch;
    const std::string dir = scratch.file("run");
    const Finished run =
        signalled(small_run(dir, {"--set", "train.epochs=4000"}),
                  {round % 2 == 0 ? SIGTERM : SIGUSR1, milliseconds(100 * round), 1 + round,
                   To::launcher, milliseconds(5), dir + "/metrics.jsonl"});
    EXPECT_TRUE(run.exit_code == 0 || run.exit_code == 75 ||
                run.says("unable to send signal downstream"))
        << run.exit_code << run.output;
    EXPECT_TRUE(run.says("stopped on request")) << run.output;
    EXPECT_NE(read_file(dir + "/summary.json").find("\"completed\": false"), std::string::npos);
  }
}

nlohmann::json summary_of(const std::string& dir) {
  return nlohmann::json::parse(read_file(dir + "/summary.json"));
}

// Whatever the length of steps and the place in an epoch of ten: 10 and 20 are the last of theirs.
TEST(Stop, IsAgreedInTheStepInWhichOneRankIsAskedAndResumesToTheSameBits) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole");
  ASSERT_EQ(classify(2, small_run(whole)).exit_code, 0);
  for (const int step : {1, 7, 10, 20, 23}) {
    const std::string dir = scratch.file("run" + std::to_string(step));
    const Fault asked = misbehave(2, "usr1 1 " + std::to_string(step), small_run(dir));
    EXPECT_EQ(asked.finished.exit_code, 75) << asked.finished.output;
    EXPECT_EQ(summary_of(dir)["steps"], step);
    EXPECT_EQ(summary_of(dir)["stopped_by"], "SIGUSR1");
    EXPECT_EQ(summary_of(dir)["train_loss"].is_null(), step <= 10) << "no epoch was finished";
    if (step == 10) {  // the smaller batch at the epoch's end; without it there are nine steps
      const Finished nine =
          classify(2, small_run(dir, {"--resume", "--set", "train.drop_last=true"}));
      EXPECT_EQ(nine.exit_code, 2) << nine.output;
      EXPECT_TRUE(nine.says("after step 10 of an epoch, but an epoch now has 9")) << nine.output;
    }
    const Finished resumed = classify(2, small_run(dir, {"--resume"}));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
    EXPECT_TRUE(resumed.says("at step " + std::to_string(step))) << resumed.output;
    EXPECT_EQ(results(dir), results(whole)) << "stopped after step " << step;
    const std::string last = "/checkpoints/step-00000040.h5";
    expect_same_bits(load_checkpoint(dir + last).model, load_checkpoint(whole + last).model);
    EXPECT_TRUE(summary_of(dir)["stopped_by"].is_null());
  }
}

TEST(Stop, ByOneInterruptSaves) {
  for (const To to : {To::all_ranks, To::one_rank, To::launcher}) {
    const ScratchFolder scratch;
    const std::string dir = scratch.file("run");
    // A terminal and a launcher send several signals, one right after the other, for one Ctrl-C.
    const Finished run = signalled(small_run(dir, {"--set", "train.epochs=1000000"}),
                                   {SIGINT, milliseconds(300), to == To::launcher ? 1 : 3, to,
                                    milliseconds(5), dir + "/metrics.jsonl"});
    // MPICH's mpiexec may itself return 0.
    EXPECT_TRUE(run.exit_code == 75 || (run.exit_code == 0 && to == To::launcher)) << run.output;
    EXPECT_TRUE(run.says("stopped on request (SIGINT)")) << run.output;
    EXPECT_EQ(summary_of(dir)["stopped_by"], "SIGINT");
    EXPECT_TRUE(newest_good_checkpoint(dir + "/checkpoints"));
  }
}

TEST(Stop, ByTwoInterruptsIsAtOnce) {
  for (const To to : {To::all_ranks, To::launcher}) {
    const ScratchFolder scratch;
    const Finished run = signalled(
        small_run(scratch.file("run")),
        {SIGINT, milliseconds(300), 2, to, milliseconds(2000), scratch.file("mark")}, "hang 1 3");
    EXPECT_NE(run.exit_code, 0) << run.output;
    EXPECT_NE(run.exit_code, 75) << run.output;
    EXPECT_NE(run.exit_code, 124) << run.output;
    EXPECT_LT(run.seconds, 2 * soon_s);
  }
}

TEST(Stop, AtMaxMinutesIsBeforeAStepThatWouldEndLater) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  int steps = 0;
  for (double minutes = 0.04; steps == 0 && minutes < 1; minutes *= 2) {  // includes the start
    fs::remove_all(dir);
    const Finished fast = classify(
        2, small_run(dir, {"--set", "train.epochs=1000000", "--set", "log.every_steps=1000000",
                           "--set", "run.max_minutes=" + std::to_string(minutes)}));
    EXPECT_EQ(fast.exit_code, 75) << fast.output;
    EXPECT_EQ(summary_of(dir)["stopped_by"], "run.max_minutes");
    steps = summary_of(dir)["steps"].get<int>();
  }
  EXPECT_GT(steps, 0);
  EXPECT_TRUE(newest_good_checkpoint(dir + "/checkpoints"));
  const Finished over = classify(2, small_run(dir, {"--resume", "--set", "train.epochs=1000000",
                                                    "--set", "run.max_minutes=0.0001"}));
  EXPECT_EQ(over.exit_code, 75) << over.output;
  EXPECT_EQ(summary_of(dir)["steps"], steps) << "no time for a step";
}

TEST(Stop, ByAFileInTheRunFolderIsOnceAndWithinAStep) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  std::atomic<bool> ended{false};
  std::thread sender([&] {
    while (!ended && !fs::exists(dir + "/log.txt")) std::this_thread::sleep_for(milliseconds(1));
    std::this_thread::sleep_for(milliseconds(500));
    std::ofstream(dir + "/stop") << "";
  });
  const auto arguments = small_run(
      dir, {"--resume", "--set", "train.epochs=1000000", "--set", "log.every_steps=1000000"});
  const Finished run = classify(2, arguments);
  ended = true;
  sender.join();
  EXPECT_EQ(run.exit_code, 75) << run.output;
  EXPECT_TRUE(run.says("stopped on request (file stop)")) << run.output;
  EXPECT_LT(run.seconds, 2 * soon_s);
  EXPECT_FALSE(fs::exists(dir + "/stop"));
  EXPECT_EQ(summary_of(dir)["stopped_by"], "file stop");
  auto again = arguments;
  again.insert(again.end(), {"--set", "run.max_minutes=0.04"});
  EXPECT_EQ(classify(2, again).exit_code, 75);
  EXPECT_EQ(summary_of(dir)["stopped_by"], "run.max_minutes") << "it goes on";
}

TEST(Stop, AfterAPlannedEpochOrStepIsExactAndTheRunIsTheSameAsWithoutStops) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), parts = scratch.file("parts");
  const auto start = [](const std::string& dir, std::vector<std::string> more) {
    more.insert(more.end(), {"--resume", "--set", "schedule.kind=\"cosine\""});
    return classify(2, small_run(dir, more));
  };
  ASSERT_EQ(start(whole, {}).exit_code, 0);

  Finished run = start(parts, {"--set", "run.stop_after_epochs=1"});
  EXPECT_EQ(run.exit_code, 75) << run.output;
  auto summary = summary_of(parts);
  EXPECT_EQ(summary["stopped_by"], "run.stop_after_epochs");
  EXPECT_EQ(summary["steps"], 10);
  EXPECT_EQ(summary["epochs"], 1);
  EXPECT_EQ(start(parts, {"--set", "run.stop_after_epochs=1"}).exit_code, 75);
  EXPECT_EQ(summary_of(parts)["test_loss"], summary["test_loss"]) << "nothing was left to do";

  run = start(parts, {"--set", "run.stop_after_steps=25"});
  EXPECT_EQ(run.exit_code, 75) << run.output;
  summary = summary_of(parts);
  EXPECT_EQ(summary["stopped_by"], "run.stop_after_steps");
  EXPECT_EQ(summary["steps"], 25);
  EXPECT_EQ(summary["epochs"], 2);
  auto rows = results(parts);
  EXPECT_EQ(rows.back()["kind"], "eval");
  EXPECT_EQ(rows.back()["step"], 25);
  EXPECT_EQ(rows.back()["loss"], summary["test_loss"]);

  // The last step of an epoch ends with the epoch's own evaluation.
  ASSERT_EQ(start(parts, {"--set", "run.stop_after_steps=30"}).exit_code, 75);
  EXPECT_EQ(summary_of(parts)["epochs"], 3);
  ASSERT_EQ(start(parts, {}).exit_code, 0);
  rows = results(parts);
  std::erase_if(rows, [](const auto& row) { return row["step"] == 25 && row["kind"] == "eval"; });
  EXPECT_EQ(rows, results(whole));
}

TEST(FileSizeLimit, BelowMpisOwnNeedIsASentenceBeforeMpiBegins) {
  const ScratchFolder scratch;
  const auto limited = [&](const std::vector<std::string>& command) {
    return run({"sh", "-c", "ulimit -f 64; exec " + quoted(command)});  // 32 KiB
  };
  for (const int ranks : {1, 2}) {
    const Finished refused = limited(app(ranks, "apps/classify", small_run(scratch.file("run"))));
    EXPECT_TRUE(refused.ended_with(2)) << refused.exit_code << refused.output;
    EXPECT_TRUE(refused.says("32.0 KiB (ulimit -f), is below the 8.0 MiB")) << refused.output;
  }
  EXPECT_FALSE(fs::exists(scratch.file("run")));
  const Finished tool = limited(app(
      1, "apps/lockstep", {"predict", "run", "--input", "x.h5", "--output", scratch.file("y.h5")}));
  EXPECT_TRUE(tool.ended_with(2)) << tool.exit_code << tool.output;
  EXPECT_TRUE(tool.says("32.0 KiB (ulimit -f), is below the 8.0 MiB")) << tool.output;
}

TEST(FileSizeLimit, IsASentenceAndExitCodeFourNotADeathBySignal) {
  const ScratchFolder scratch;
  // 8 MiB: enough for MPI's own files in shared memory, too small for 21 MB of weights and
  // momentum.
  auto train =
      app(2, "apps/classify",
          small_run(scratch.file("run"), {"--set", "train.epochs=1", "--set", "model.kind=\"mlp\"",
                                          "--set", "model.hidden=[8192]"}));
  std::string command = "ulimit -f 16384; exec";
  for (const auto& word : train) command += " '" + word + "'";
  const Finished finished = run({"sh", "-c", command});
  EXPECT_EQ(finished.exit_code, 4) << finished.output;
  EXPECT_TRUE(finished.says("step-00000010.h5") && finished.says("File too large"))
      << finished.output;
}

}  // namespace
}  // namespace lockstep::test
