// Real faults in a training on 4 ranks: the message, its delay, and no process left behind.
#include <gtest/gtest.h>

#include <apps/fault.hpp>
#include <apps/results.hpp>
#include <apps/small_run.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The deck's deadline, which also covers the job's start; the default where no rank needs to reach
/// it.
class Verdict : public testing::Test {
 protected:
  [[nodiscard]] Fault fault(const std::string& order,
                            const std::vector<std::string>& more = {}) const {
    return misbehave(4, order, small_run(run_dir, more));
  }

  [[nodiscard]] std::string verdict_file() const {
    return read_file(run_dir + "/flight/verdict.txt");
  }

  struct Read {
    Finished job, shown;
  };
  /// The output of `lockstep flight` for `rings` after that fault. Repeated if, on a busy machine,
  /// the other ranks had not reached their wait when the job ended.
  [[nodiscard]] Read read_after(const std::string& order, const std::string& verdict,
                                const std::string& rings,
                                const std::vector<std::string>& more = {}) const {
    Read read;
    for (int run = 0; run < 3 && !read.shown.says(verdict); ++run) {
      fs::remove_all(run_dir);
      fs::remove_all(rings);
      if (rings != run_dir) fs::create_directory(rings);
      read.job = fault(order, more).finished;
      read.shown = lockstep_utility({"flight", rings});
    }
    EXPECT_TRUE(read.shown.says(verdict)) << read.shown.output;
    return read;
  }

  /// Processes with this test's folder in their command line; zombies have none.
  [[nodiscard]] int orphans() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string line = read_of_process(entry.path() / "cmdline");
      if (line.find(scratch.path()) != std::string::npos) ++count;
    }
    return count;
  }
  void expect_no_orphans() const {
    for (int i = 0; i < 3000 && orphans() > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(orphans(), 0);
  }

  void expect_verdict(const Fault& fault, const std::vector<std::string>& parts) const {
    EXPECT_EQ(fault.finished.exit_code, 3) << fault.finished.output;
    EXPECT_GT(fault.seconds, 0.0) << "the fault never came";
    EXPECT_LT(fault.seconds, soon_s) << fault.finished.output;
    const std::string verdict = verdict_file();
    for (const std::string& part : parts) {
      EXPECT_NE(verdict.find(part), std::string::npos) << part << "\nis not in\n" << verdict;
    }
    const std::string sentence = verdict.substr(0, verdict.find('\n'));
    const auto first = fault.finished.output.find(sentence);
    EXPECT_NE(first, std::string::npos) << fault.finished.output;
    EXPECT_EQ(fault.finished.output.find(sentence, first + 1), std::string::npos)
        << "the verdict was printed twice\n"
        << fault.finished.output;
    expect_no_orphans();
  }

  ScratchFolder scratch;
  std::string run_dir = scratch.file("run");
};

TEST_F(Verdict, NamesAStoppedRankItsProcessAndTheBucketOthersWaitIn) {
  const Fault stopped = fault("stop 2 7", with_timeout);
  EXPECT_GE(stopped.seconds, least_wait_s);
  expect_verdict(stopped, {"rank 2 has not entered all_reduce(sum) #",
                           "of f32[6921] (bucket 0, 27.0 KiB); ", "ranks 0-1, 3 wait there since ",
                           "rank 2's last operation was ", "completed ", "is stopped (state T)"});
  const Finished shown = lockstep_utility({"flight", run_dir});
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_TRUE(shown.says("verdict: rank 2 has not entered all_reduce(sum)")) << shown.output;
  const auto report = Json::parse(lockstep_utility({"flight", run_dir, "--json"}).output);
  EXPECT_EQ(report.at("look_at"), Json::array({2}));
  EXPECT_EQ(report.at("ranks").size(), 4U);
}

TEST_F(Verdict, NamesARankThatIsStoppedBeforeItMakesAGroupWithTheOthers) {
  expect_verdict(fault("group 2 7", with_timeout),
                 {"rank 2's last operation was ", "completed ", "is stopped (state T)"});
}

TEST_F(Verdict, NamesAStoppedRankWithoutSharedMemoryToo) {
  auto options = with_timeout;
  options.insert(options.end(), {"--set", "comm.shared_memory=false"});
  expect_verdict(fault("stop 1 7", options),
                 {"rank 1 has not entered all_reduce(sum) #", "ranks 0, 2-3 wait there since ",
                  "is stopped (state T)"});
}

struct OddCall {
  std::string order, odd, others;
  friend void PrintTo(const OddCall& call, std::ostream* out) { *out << call.order; }
};

class VerdictOnCalls : public Verdict, public testing::WithParamInterface<OddCall> {};

TEST_P(VerdictOnCalls, NamesTheCallOfEachSide) {
  const OddCall& call = GetParam();
  expect_verdict(fault(call.order + " 1 7"),
                 {"rank 1 called " + call.odd, "ranks 0, 2-3 called " + call.others,
                  "all ranks must make the same calls in the same order"});
}

INSTANTIATE_TEST_SUITE_P(
    OneRank, VerdictOnCalls,
    testing::Values(
        OddCall{"op", "broadcast(root 0) #1 of f32[8]", "all_reduce(sum) #1 of f32[8]"},
        OddCall{"shape", "all_reduce(sum) #1 of f32[9]", "all_reduce(sum) #1 of f32[8]"},
        OddCall{"dtype", "all_reduce(sum) #1 of f64[8]", "all_reduce(sum) #1 of f32[8]"},
        OddCall{"root", "broadcast(root 1) #1 of f32[8]", "broadcast(root 0) #1 of f32[8]"},
        OddCall{"reduction", "all_reduce(max) #1 of f32[8]", "all_reduce(sum) #1 of f32[8]"},
        OddCall{"skip", "barrier #1", "all_reduce(sum) #1 of f32[8]"}),
    [](const auto& test) { return test.param.order; });

TEST_F(Verdict, OfAnExceptionBetweenCollectivesIsThatRanksMessage) {
  const Fault thrown = fault("throw 1 7");
  EXPECT_EQ(thrown.finished.exit_code, 3) << "a peer of the others failed";
  EXPECT_TRUE(thrown.finished.says("rank 1 of 4")) << thrown.finished.output;
  EXPECT_TRUE(thrown.finished.says("an injected fault")) << thrown.finished.output;
  EXPECT_GT(thrown.seconds, 0.0);
  EXPECT_LT(thrown.seconds, soon_s);
  EXPECT_TRUE(lockstep_utility({"flight", run_dir}).says("an injected fault"));
  expect_no_orphans();
}

// mpiexec ends the others at once, and may report success: the rings tell afterwards.
TEST_F(Verdict, OfAKilledRankIsReadFromTheRingsAfterwards) {
  const auto [killed, shown] =
      read_after("kill 2 7", "verdict: rank 2 has not entered all_reduce(sum) #", run_dir);
  EXPECT_NE(killed.exit_code, 0) << killed.output;
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_TRUE(shown.says("bucket 0")) << shown.output;
  expect_no_orphans();
}

TEST_F(Verdict, OfARankThatLeftWithCodeZeroIsReadFromTheRingsAfterwards) {
  static_cast<void>(read_after("exit0 3 7", "verdict: rank 3 has not entered all_reduce(sum) #",
                               run_dir, with_timeout));
  EXPECT_FALSE(completed(run_dir));
  expect_no_orphans();
}

TEST_F(Verdict, IsNotNeededAfterAGoodEnd) {
  ASSERT_EQ(fault("nothing").finished.exit_code, 0);
  EXPECT_FALSE(fs::exists(run_dir + "/flight"));
  const Finished shown = lockstep_utility({"flight", run_dir});
  EXPECT_EQ(shown.exit_code, 2);
  EXPECT_TRUE(shown.says("holds no flight recorder rings")) << shown.output;
}

TEST_F(Verdict, RingsLieWhereTheDeckSays) {
  const std::string rings = scratch.file("rings");
  auto options = with_timeout;
  options.insert(options.end(), {"--set", "flight.dir=\"" + rings + "\""});
  static_cast<void>(read_after("exit0 1 7", "verdict: rank 1 has not entered", rings, options));
}

TEST_F(Verdict, WithoutAFolderForRingsIsAWarningAndTheRunGoesOn) {
  const Finished finished = fault("nothing", {"--set", "flight.dir=\"/nonexistent\""}).finished;
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("no flight recorder on this rank")) << finished.output;
}

TEST_F(Verdict, OnADamagedFolderIsASentenceAndExitCodeTwo) {
  for (const char* content : {"", "LSFLIGHTxxxx", "nothing of ours"}) {
    scratch.write("damaged/rank-0.ring", content);
    const Finished shown = lockstep_utility({"flight", scratch.file("damaged")});
    EXPECT_EQ(shown.exit_code, 2) << shown.output;
    EXPECT_TRUE(shown.says("is not a flight recorder's ring file")) << shown.output;
  }
  fs::create_directories(scratch.file("no_file/rank-0.ring"));
  const Finished shown = lockstep_utility({"flight", scratch.file("no_file")});
  EXPECT_EQ(shown.exit_code, 2) << shown.output;
  EXPECT_TRUE(shown.says("rank-0.ring cannot be read: Is a directory")) << shown.output;
}

TEST_F(Verdict, OfARankThatDoesNotComeToMpiInitIsASentence) {
  const Finished finished = fault("late 1", {"--set", "comm.timeout=1.5"}).finished;
  // The waiting rank leaves with 3; mpiexec then kills the other and may report that one (9).
  EXPECT_TRUE(finished.exit_code == 3 || finished.exit_code == 9) << finished.output;
  EXPECT_TRUE(finished.says("MPI_Init has not returned after 1.5 s")) << finished.output;
  EXPECT_LT(finished.seconds, soon_s) << "nobody waited for that rank, which sleeps for longer";
  expect_no_orphans();
}

}  // namespace
}  // namespace lockstep::test
