// One process with ranks as threads: the same run as mpiexec's, without mpiexec and without MPI.
#include <gtest/gtest.h>

#include <apps/fault.hpp>
#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include <lockstep/checkpoint/reader.hpp>

namespace lockstep::test {
namespace {

using Json = nlohmann::json;

std::vector<std::string> on_threads(const std::string& program, int ranks,
                                    const std::vector<std::string>& arguments) {
  std::vector<std::string> command{built(program), "--ranks-as-threads", std::to_string(ranks)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

Finished classify_on_threads(int ranks, const std::vector<std::string>& arguments) {
  return run(on_threads("apps/classify", ranks, arguments));
}

Fault misbehave_on_threads(int ranks, const std::string& order,
                           const std::vector<std::string>& arguments) {
  return misbehave(on_threads("tests/apps/misbehave", ranks, arguments), order);
}

Json summary(const std::string& dir) { return Json::parse(read_file(dir + "/summary.json")); }

TEST(RanksAsThreads, LeaveTheSameBitsAsRanksThatAreProcesses) {
  for (const int ranks : {1, 2, 3}) {
    const ScratchFolder scratch;
    const std::string threads = scratch.file("threads"), processes = scratch.file("processes");
    const auto arguments = [](const std::string& dir) {
      return small_run(dir,
                       {"--set", "optimizer.kind=\"adamw\"", "--set", "optimizer.clip_norm=1.0"});
    };
    const Finished run = classify_on_threads(ranks, arguments(threads));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    ASSERT_EQ(classify(ranks, arguments(processes)).exit_code, 0);
    const char* last = "/checkpoints/step-00000040.h5";
    const auto here = load_checkpoint(threads + last), there = load_checkpoint(processes + last);
    expect_same_state(here, there);
    EXPECT_EQ(here.train.sums, there.train.sums);
    ASSERT_EQ(results(threads).size(), 28U) << "20 step lines, 4 epochs, 4 evaluations";
    EXPECT_EQ(results(threads), results(processes));
    EXPECT_EQ(summary(threads).at("ranks"), ranks);
    EXPECT_EQ(summary(threads).at("backend"), "threads");
    EXPECT_EQ(summary(threads).at("completed"), true);
  }
}

TEST(RanksAsThreads, RunGoesOnWhereProcessesStoppedAndTheOtherWayRound) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), mixed = scratch.file("mixed");
  const auto epochs = [](const std::string& dir, int count) {
    return small_run(dir, {"--resume", "--set", "train.epochs=" + std::to_string(count)});
  };
  ASSERT_EQ(classify(2, epochs(whole, 3)).exit_code, 0);
  ASSERT_EQ(classify(2, epochs(mixed, 1)).exit_code, 0);
  const Finished second = classify_on_threads(2, epochs(mixed, 2));
  ASSERT_EQ(second.exit_code, 0) << second.output;
  EXPECT_TRUE(second.says("resumed from") && !second.says("warning")) << second.output;
  ASSERT_EQ(classify(2, epochs(mixed, 3)).exit_code, 0);
  const char* last = "/checkpoints/step-00000030.h5";
  expect_same_bits(load_checkpoint(mixed + last).model, load_checkpoint(whole + last).model);
}

TEST(RanksAsThreads, AreOneProcessInWhichMpiIsNotInitialised) {
  const ScratchFolder scratch;
  const Finished run =
      classify_on_threads(2, small_run(scratch.file("run"), {"--doctor", "--json"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  std::set<int> pids;
  const Json found = Json::parse(run.output.substr(run.output.find("{\n")));
  for (const Json& rank : found.at("ranks")) {
    pids.insert(rank.at("pid").get<int>());
    EXPECT_EQ(rank.at("thread_level"), "");
  }
  EXPECT_EQ(found.at("ranks").size(), 2U);
  EXPECT_EQ(found.at("links").size(), 1U);
  EXPECT_EQ(pids.size(), 1U);
}

TEST(RanksAsThreads, LookAndPrintOnce) {
  const ScratchFolder scratch;
  for (const auto& [verb, once] : {std::pair{"--describe", "activations of"},
                                   {"--dry-run", "# 2 ranks;"},
                                   {"--check-gradients", "# every gradient agrees"},
                                   {"--doctor", "the ranks of one process, without MPI"}}) {
    const Finished run = classify_on_threads(2, small_run(scratch.file("run"), {verb}));
    EXPECT_EQ(run.exit_code, 0) << verb << run.output;
    const auto at = run.output.find(once);
    ASSERT_NE(at, std::string::npos) << verb << run.output;
    EXPECT_EQ(run.output.find(once, at + 1), std::string::npos) << verb << run.output;
  }
  EXPECT_FALSE(std::filesystem::exists(scratch.file("run")));
}

TEST(RanksAsThreads, BadNumberIsExitCodeTwoAndSaysWhichAreGood) {
  const ScratchFolder scratch;
  for (const char* number : {"0", "-1", "1025", "100000", "99999999999999999999", "two", ""}) {
    const Finished run = test::run({built("apps/classify"), source("inputs/synthetic.toml"),
                                    std::string("--ranks-as-threads=") + number});
    EXPECT_EQ(run.exit_code, 2) << number << run.output;
    EXPECT_TRUE(run.says("--ranks-as-threads") && run.says("--help")) << run.output;
  }
}

TEST(RanksAsThreads, AreRefusedOnceWhereSeveralProcessesWereStarted) {
  const ScratchFolder scratch;
  const Finished run = classify(2, small_run(scratch.file("run"), {"--ranks-as-threads", "2"}));
  EXPECT_EQ(run.exit_code, 2) << run.output;
  EXPECT_TRUE(run.says("2 processes were started") && run.says("without mpiexec")) << run.output;
  EXPECT_EQ(std::ranges::count(run.output, '\n'), 1) << run.output;
  EXPECT_FALSE(std::filesystem::exists(scratch.file("run")));
  EXPECT_EQ(classify(1, small_run(scratch.file("run"), {"--ranks-as-threads", "2", "--dry-run"}))
                .exit_code,
            0)
      << "one process may be several ranks, whoever started it";
}

TEST(RanksAsThreads, WrongDeckIsOneSentence) {
  const ScratchFolder scratch;
  const Finished run =
      classify_on_threads(3, small_run(scratch.file("run"), {"--set", "train.epoch=3"}));
  EXPECT_EQ(run.exit_code, 2) << run.output;
  EXPECT_TRUE(run.says("train.epoch") && !run.says("rank ")) << run.output;
  EXPECT_EQ(std::ranges::count(run.output, '\n'), 1) << run.output;
}

TEST(RanksAsThreads, ExceptionOnOneEndsTheProcessWithItsSentenceAndCodeAtOnce) {
  const ScratchFolder scratch;
  for (const int ranks : {1, 3}) {
    const std::string dir = scratch.file(std::to_string(ranks));
    const int faulty = ranks / 2;
    const Fault fault =
        misbehave_on_threads(ranks, "throw " + std::to_string(faulty) + " 7", small_run(dir));
    const Finished& run = fault.finished;
    EXPECT_EQ(run.exit_code, 1) << run.output;
    const std::string sentence =
        "rank " + std::to_string(faulty) + " of " + std::to_string(ranks) + ": an injected fault";
    EXPECT_TRUE(run.says("misbehave: " + sentence)) << run.output;
    EXPECT_FALSE(run.says("failed earlier")) << "the others' echoes\n" << run.output;
    EXPECT_NE(read_file(dir + "/log.txt").find(sentence), std::string::npos);
    EXPECT_FALSE(summary(dir).at("completed").get<bool>());
    EXPECT_GT(fault.seconds, 0.0) << "the fault never came";
    EXPECT_LT(fault.seconds, soon_s);
  }
}

TEST(RanksAsThreads, LossThatBecomesNanIsExitCodeOneNamingStepAndRemedy) {
  const ScratchFolder scratch;
  const Finished run = misbehave_on_threads(2, "nan 1 7", small_run(scratch.file("run"))).finished;
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_TRUE(run.says("nan at step 7") && run.says("optimizer.lr")) << run.output;
  EXPECT_EQ(run.output.find("nan at step"), run.output.rfind("nan at step")) << run.output;
}

TEST(RanksAsThreads, OneThatNeverComesBackIsATimeOutThatNamesItAndEndsTheProcess) {
  const ScratchFolder scratch;
  const Fault fault = misbehave_on_threads(
      3, "hang 1 7", small_run(scratch.file("run"), {"--set", "comm.timeout=4"}));
  const Finished& run = fault.finished;
  EXPECT_EQ(run.exit_code, 3) << run.output;
  EXPECT_TRUE(run.says("of 3: ") && run.says("rank 1")) << run.output;
  EXPECT_GE(fault.seconds, least_wait_s);
  EXPECT_LT(fault.seconds, soon_s);
}

TEST(RanksAsThreads, SignalStopsAllBeforeTheNextStepWithExitCode75) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  const Fault fault =
      misbehave_on_threads(3, "usr1 1 7", small_run(dir, {"--set", "train.epochs=4000"}));
  EXPECT_EQ(fault.finished.exit_code, 75) << fault.finished.output;
  EXPECT_TRUE(fault.finished.says("stopped on request")) << fault.finished.output;
  EXPECT_FALSE(summary(dir).at("completed").get<bool>());
  const Finished resumed = classify_on_threads(2, small_run(dir, {"--resume", "--dry-run"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  const auto stopped = summary(dir).at("steps").get<int>();
  EXPECT_GE(stopped, 7);
  const Finished rest = classify_on_threads(
      2, small_run(dir, {"--resume", "--set", "train.epochs=" + std::to_string(stopped / 10 + 1)}));
  EXPECT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(rest.says("resumed from")) << rest.output;
}

}  // namespace
}  // namespace lockstep::test
