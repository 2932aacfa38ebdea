// `lockstep elastic` with real faults: ranks killed and stopped, nodes that leave and join, lack of
// memory.
#include <gtest/gtest.h>

#include <apps/results.hpp>
#include <apps/small_run.hpp>
#include <apps/supervised.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// lockstep elastic OPTIONS -- tests/apps/misbehave DECK ..., in a scratch folder.
class Elastic : public Supervised {
 protected:
  [[nodiscard]] Words command(const Words& options, const Words& more = {}) const {
    Words words{built("apps/lockstep"), "elastic", "--launcher", launcher_, "--settle", "0.2"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", built("tests/apps/misbehave")});
    const Words arguments = small_run(dir(), more);
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  /// Fault and pace for misbehave; a fault that should happen only once leaves a mark.
  Finished supervise(const Words& options, const Words& more, const std::string& fault,
                     const std::string& pace = "0", bool once = true) {
    std::vector<std::pair<std::string, std::string>> environment{
        {"MISBEHAVE", fault}, {"MISBEHAVE_PACE", pace}, {"MISBEHAVE_DOWN", scratch_.file("down")}};
    if (once) environment.emplace_back("MISBEHAVE_MARK", scratch_.file("mark"));
    Finished finished = run(command(options, more), environment);
    EXPECT_EQ(fs::exists(scratch_.file("mark")), once && !fault.empty()) << finished.output;
    expect_nothing_left();
    return finished;
  }
};

Words invariant(int epochs) {
  return {
      "--set", "train.reduction=\"invariant\"", "--set", "train.shards=12",
      "--set", "checkpoint.every_steps=5",      "--set", "train.epochs=" + std::to_string(epochs)};
}

TEST_F(Elastic, AKilledRankCostsItsSlotForAWhileAndTheFinalBitsAreTheUndisturbedRuns) {
  const Finished finished =
      supervise({"--min", "2", "--max", "4", "--rejoin", "3"}, invariant(12), "kill 2 40", "50");
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("start", "ranks"), Json({4, 3, 4})) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"killed", "members", "completed"})) << finished.output;
  EXPECT_EQ(history("end")[0].at("blamed_ranks"), Json({2})) << finished.output;
  // The planned change lost no step; the kill lost at most those after the last checkpoint.
  EXPECT_EQ(history("start")[2].at("step"), history("end")[1].at("step"));
  EXPECT_EQ(history("start")[2].at("lost_steps"), 0);
  EXPECT_GE(history("start")[1].at("step").get<int>(), 10) << finished.output;
  EXPECT_LT(history("start")[1].at("down_s").get<double>(), 20.0);
  EXPECT_TRUE(completed(dir()));

  // The deck in a checkpoint contains the run folder.
  const std::string last = "/checkpoints/step-00000120.h5", disturbed = scratch_.file("disturbed");
  fs::rename(dir(), disturbed);
  ASSERT_EQ(classify(4, small_run(dir(), invariant(12))).exit_code, 0);
  const Finished same = lockstep_utility({"checkpoint", "diff", disturbed + last, dir() + last});
  EXPECT_EQ(same.exit_code, 0) << same.output;
}

TEST_F(Elastic, RepeatsTheCheckpointItWasGivenUntilTheRunHasSavedOneOfItsOwn) {
  const std::string other = scratch_.file("other");
  ASSERT_EQ(classify(2, small_run(other, {"--set", "train.epochs=1"})).exit_code, 0);
  const std::string given = other + "/checkpoints/step-00000010.h5";
  struct Case {
    const char* fault;
    Words more;
    std::string from;
  };
  // An epoch is 10 steps, and ends with a checkpoint.
  const std::vector<Case> cases{{"kill 1 5", {}, given + " at step 10"},
                                {"kill 1 15",
                                 {"--set", "checkpoint.async=false"},
                                 dir() + "/checkpoints/step-00000020.h5 at step 20"},
                                {"kill 1 8",
                                 {"--set", "checkpoint.local_steps=5"},
                                 dir() + "/checkpoints/step-00000015.h5 at step 15"}};
  for (const auto& [fault, more, from] : cases) {
    fs::remove_all(dir());
    fs::remove(scratch_.file("mark"));
    Words arguments{"--resume=" + given};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished finished = supervise({"--min", "2", "--max", "2"}, arguments, fault, "5");
    EXPECT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_EQ(all("end", "why"), Json({"killed", "completed"})) << finished.output;
    const auto second = finished.output.find("start 2");
    ASSERT_NE(second, std::string::npos) << finished.output;
    EXPECT_NE(finished.output.find("resumed from " + from, second), std::string::npos)
        << fault << "\n"
        << finished.output;
  }
}

TEST_F(Elastic, ARankThatStopsAnsweringIsNamedAndTheOthersGoOn) {
  const Finished finished = supervise({"--min", "1", "--max", "3", "--rejoin", "100"},
                                      {"--set", "comm.timeout=12"}, "stop 1 12");
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("start", "ranks"), Json({3, 2})) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"no answer", "completed"})) << finished.output;
  EXPECT_EQ(history("end")[0].at("blamed_ranks"), Json({1})) << finished.output;
}

TEST_F(Elastic, EndsAJobWhoseRunIsCompleteButWhoseProcessWasStoppedBehindMpiFinalize) {
  const Finished finished =
      supervise({"--min", "2", "--max", "2", "--hang-after", "12"}, {}, "linger 1", "0", false);
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("end", "why"), Json::array({"completed"})) << finished.output;
  EXPECT_LT(finished.seconds, 80) << finished.output;
}

TEST_F(Elastic, RanksThatAreAllStoppedAreEndedForWantOfLife) {
  const Finished finished =
      supervise({"--min", "2", "--max", "2", "--hang-after", "12"}, {}, "stop -1 12");
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"hung", "completed"})) << finished.output;
  EXPECT_EQ(history("end")[0].at("blamed_ranks"), Json({0, 1})) << finished.output;
}

TEST_F(Elastic, ABudgetOfRestartsEndsARunThatDiesEachTimeAndBacksOff) {
  double at_once = 1.0;
  for (int attempt = 0; attempt < 5 && at_once >= 1.0; ++attempt) {  // a busy machine may be late
    fs::remove_all(dir());
    const Finished finished = supervise({"--min", "2", "--max", "2", "--restarts", "2"}, {},
                                        "kill 1 3", "0", /*once=*/false);
    EXPECT_EQ(finished.exit_code, 3) << finished.output;
    EXPECT_EQ(all("end", "why"), Json({"killed", "killed", "killed"})) << finished.output;
    EXPECT_EQ(all("over", "why"), Json({"budget"}));
    at_once = history("start")[1].at("down_s").get<double>();
    EXPECT_GE(history("start")[2].at("down_s").get<double>(), 1.0);
  }
  EXPECT_LT(at_once, 1.0);
}

TEST_F(Elastic, AFailureAtTheSameStepIsNotTriedAThirdTime) {
  const Finished finished =
      supervise({"--min", "2", "--max", "2"}, {}, "nan 1 7", "0", /*once=*/false);
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"failure", "failure"})) << finished.output;
}

TEST_F(Elastic, LackOfMemoryNamesTheRankItsMemoryAndTheLimitAndIsNotTriedAgain) {
  const Words command = this->command({"--min", "2", "--max", "2"});
  const Finished finished = run({"sh", "-c", "ulimit -v 4194304; exec " + quoted(command)},
                                {{"MISBEHAVE", "eat 1 35"}, {"MISBEHAVE_PACE", "20"}});
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"out of memory"})) << finished.output;
  EXPECT_TRUE(finished.says("rank 1 (")) << finished.output;
  EXPECT_TRUE(finished.says("its limit (ulimit -v) was 4.0 GiB")) << finished.output;
  expect_nothing_left();
}

TEST_F(Elastic, ABadDeckEndsItAtOnceWithTwo) {
  const Finished seen = supervise({"--max", "2"}, {"--set", "train.epochs=-1"}, "");
  EXPECT_EQ(seen.exit_code, 2) << seen.output;
  EXPECT_FALSE(seen.says("start 1")) << seen.output;
  // Only the program knows the tables of its task.
  const Finished told = supervise({"--max", "2"}, {"--set", "model.kind=\"none\""}, "");
  EXPECT_EQ(told.exit_code, 2) << told.output;
  EXPECT_TRUE(told.says("start 1") && !told.says("start 2")) << told.output;
}

TEST_F(Elastic, ALauncherThatIsNotThereOrATimeThatIsNoneEndsItBeforeAnythingIsStarted) {
  for (const std::string& no_launcher :
       {std::string("no-launcher"), scratch_.file("none"), scratch_.path()}) {
    launcher_ = no_launcher + " -l";
    const Finished finished = run(command({"--max", "2"}));
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says("the launcher " + no_launcher + " is not an executable program"))
        << finished.output;
  }
  for (const std::string no_time : {"nan", "inf", "-1", "1e99", "soon"}) {
    const Finished finished = run(command({"--max", "2", "--within=" + no_time}));
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says(no_time + " is not a number from 0")) << finished.output;
  }
  EXPECT_FALSE(fs::exists(dir()));
}

TEST_F(Elastic, MoreRanksOrHostsThanCanBeStartedAreASentenceAtOnce) {
  std::string members;
  for (int host = 0; host < 100'000; ++host) members += "host" + std::to_string(host) + "\n";
  const std::string file = scratch_.write("members", members);
  struct Case {
    Words options;
    const char* says;
  };
  for (const auto& [options, says] :
       {Case{{"--max", "1000000000"}, "1000000000 ranks do not fit on this machine"},
        Case{{"--members", file, "--max", "100000"}, "100000 ranks on 100000 hosts do not fit"},
        Case{{"--members", "/dev/zero", "--max", "2"},
             "/dev/zero cannot be read: it is a device, not a file"}}) {
    const Finished finished = run(command(options), {}, 60);
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says(says)) << finished.output;
    EXPECT_LT(finished.seconds, 50) << finished.output;  // 5, plus a margin for a busy machine
  }
  EXPECT_FALSE(fs::exists(dir()));
}

TEST_F(Elastic, NumbersOfRanksThatDoNotDivideTheShardsAreLeftOut) {
  const Finished none = supervise({"--min", "5", "--max", "5"}, invariant(1), "");
  EXPECT_EQ(none.exit_code, 2) << none.output;
  EXPECT_TRUE(none.says("train.shards = 12 needs a number of ranks that divides it"))
      << none.output;
  const Finished finished = supervise({"--min", "2", "--max", "5"}, invariant(1), "");
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("start", "ranks"), Json({4})) << finished.output;
}

Words mlp_on_pairs() {
  return {"--set", "model.kind=\"mlp\"", "--set", "mesh.tp=2", "--set", "checkpoint.every_steps=5"};
}

TEST_F(Elastic, ALostRankOfADividedModelShrinksDpAlone) {
  const Finished finished =
      supervise({"--min", "1", "--max", "4", "--rejoin", "1000"}, mlp_on_pairs(), "kill 2 22");
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("start", "ranks"), Json({4, 2})) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"killed", "completed"})) << finished.output;
  EXPECT_GE(history("start")[1].at("step").get<int>(), 10) << finished.output;
  EXPECT_TRUE(
      finished.says("2 of 3 slots are used: mesh.tp = 2 wants a multiple of 2 ranks, as "
                    "only mesh.dp changes with their number"))
      << finished.output;
  const std::string disturbed = scratch_.file("disturbed");
  fs::rename(dir(), disturbed);
  good(classify(4, small_run(dir(), mlp_on_pairs())));
  const auto loss = [](const std::string& run) {
    return Json::parse(read_file(run + "/summary.json")).at("test_loss").get<double>();
  };
  EXPECT_NEAR(loss(disturbed), loss(dir()), 1e-4 * loss(dir()));
}

TEST_F(Elastic, AMeshOfFixedSizesWaitsForALostSlotAndSaysWhy) {
  Words fixed = mlp_on_pairs();
  fixed.insert(fixed.end(), {"--set", "mesh.dp=1"});
  const Finished finished = supervise({"--min", "1", "--max", "3"}, fixed, "kill 1 12");
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("start", "ranks"), Json({2, 2})) << finished.output;
  EXPECT_TRUE(
      finished.says("2 of 3 slots are used: mesh.tp = 2 is a mesh of 2 ranks and no other "
                    "number (mesh.dp = -1 goes on with fewer)"))
      << finished.output;
  fs::remove(scratch_.file("mark"));
  const Finished none = supervise({"--min", "3", "--max", "3"}, mlp_on_pairs(), "");
  EXPECT_EQ(none.exit_code, 2) << none.output;
  EXPECT_TRUE(none.says("mesh.tp = 2 wants a multiple of 2 ranks")) << none.output;
  EXPECT_TRUE(none.says("there is no such number from --min 3 to --max 3")) << none.output;
}

/// Runs a shell script beside the supervisor, whose process is $pid; `stepped N` waits for a step
/// of its N-th start.
Finished with_script(const Words& command, const std::string& dir, const std::string& script,
                     const std::string& pace) {
  return run(
      {"sh", "-c",
       quoted(command) + "& pid=$!\n" + "stepped() { until [ \"$(grep -c '\"kind\":\"start\"' " +
           dir + "/elastic.jsonl 2>/dev/null)\" = $1 ]; do sleep 0.05; done; " + "rows() { cat " +
           dir + "/metrics.jsonl 2>/dev/null | wc -l; }; " +  // none yet: 0
           "old=$(rows); until [ $(rows) -gt $old ]; do sleep 0.05; done; }\n" + script +
           "\nwait $pid; echo exit=$?"},
      {{"MISBEHAVE_PACE", pace}});
}

TEST_F(Elastic, SigtermIsPassedOnSavedAndEndsWithSeventyFive) {
  const auto command = this->command({"--min", "2", "--max", "2"}, {"--set", "train.epochs=2000"});
  const Finished finished = with_script(command, dir(), "stepped 1; kill -TERM $pid", "5");
  EXPECT_TRUE(finished.says("exit=75")) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"stopped"})) << finished.output;
  expect_nothing_left();
}

TEST_F(Elastic, AClosedTerminalStopsAndSavesButNotUnderNohup) {
  auto command = this->command({"--min", "2", "--max", "2"}, {"--set", "train.epochs=2000"});
  const Finished closed = with_script(command, dir(), "stepped 1; kill -HUP $pid", "5");
  EXPECT_TRUE(closed.says("exit=75")) << closed.output;
  EXPECT_EQ(all("end", "why"), Json({"stopped"})) << closed.output;
  expect_nothing_left();

  fs::remove_all(dir());
  command.insert(command.begin(), "nohup");
  const Finished kept = with_script(command, dir(),
                                    "stepped 1; kill -HUP $pid; sleep 1; stepped 1 && [ -d "
                                    "/proc/$pid ] && echo goes on; kill -TERM $pid",
                                    "5");
  EXPECT_TRUE(kept.says("goes on") && kept.says("exit=75")) << kept.output;
  expect_nothing_left();
}

TEST_F(Elastic, AWorkingDirectoryThatIsGoneEndsItWithASentence) {
  const std::string gone = scratch_.file("gone");
  const std::string in_it = "mkdir " + gone + "; cd " + gone + "; ";
  const Words once = command({"--min", "2", "--max", "2"});
  const Finished before = run({"sh", "-c", in_it + "rmdir " + gone + "; exec " + quoted(once)});
  EXPECT_EQ(before.exit_code, 2) << before.output;
  EXPECT_TRUE(before.says("the working directory of this program")) << before.output;
  EXPECT_FALSE(before.says("start 1")) << before.output;

  const Finished meanwhile =
      run({"sh", "-c",
           in_it + quoted(once) + "& pid=$!; until [ -e " + scratch_.file("mark") +
               " ]; do sleep 0.05; done; rmdir " + gone + "; wait $pid"},
          {{"MISBEHAVE", "kill 1 7"}, {"MISBEHAVE_MARK", scratch_.file("mark")}});
  EXPECT_EQ(meanwhile.exit_code, 2) << meanwhile.output;
  EXPECT_TRUE(meanwhile.says("the working directory of this program")) << meanwhile.output;
  EXPECT_FALSE(meanwhile.says("start 2")) << meanwhile.output;
  expect_nothing_left();
}

TEST_F(Elastic, ANextSupervisorWaitsForTheRanksOfOneThatWasKilled) {
  const Words more{"--set", "train.epochs=6", "--set", "checkpoint.every_steps=1"};
  const auto first = command({"--min", "2", "--max", "2"}, more);
  auto next = first;
  next.emplace_back("--resume");
  // A process with a rank's mark that lasts until it is waited for: on a busy machine the ranks may
  // end first.
  const std::string said = scratch_.file("said");
  const std::string leave_one =
      "stepped 1; read launcher rest </proc/$pid/task/$pid/children\n"
      "mark=$(tr '\\0' '\\n' </proc/$launcher/environ | grep ^LOCKSTEP_SUPERVISOR=)\n"
      "kill -KILL $pid; wait $pid; env \"$mark\" sleep 1000 >/dev/null 2>&1 & left=$!\n";
  const std::string until_it_waits =
      "until grep -q 'left behind' " + said + " || ! kill -0 $pid; do sleep 0.05; done; kill $left";
  const Finished finished = with_script(
      first, dir(), leave_one + quoted(next) + ">" + said + " 2>&1 & pid=$!\n" + until_it_waits,
      "50");
  EXPECT_TRUE(finished.says("exit=0")) << finished.output;
  const std::string next_said = read_file(said);
  for (const char* part : {"of this run left behind by a killed supervisor: ", "resumed from "})
    EXPECT_NE(next_said.find(part), std::string::npos) << next_said;
  expect_nothing_left();
}

TEST_F(Elastic, ASupervisorThatIsKilledLeavesNoRankBehindAndTheySave) {
  const auto command = this->command({"--min", "2", "--max", "2"}, {"--set", "train.epochs=2000"});
  const Finished finished = with_script(command, dir(), "stepped 1; kill -KILL $pid", "5");
  EXPECT_TRUE(finished.says("exit=137")) << finished.output;
  expect_nothing_left(/*within_s=*/30);
  EXPECT_EQ(Json::parse(read_file(dir() + "/summary.json")).at("stopped_by"), "SIGTERM");
  EXPECT_TRUE(newest_good_checkpoint(dir() + "/checkpoints"));
}

/// Hosts that are all this machine: `ssh` runs the command here, unless the file down exists and
/// the host is the first one.
class PretendedHosts : public Elastic {
 protected:
  [[nodiscard]] Words hosts(const std::string& members) {
    return hosts(members, "[ \"$1\" = node1 ] && [ -e '" + scratch_.file("down") +
                              "' ] && exit 255\nshift\neval \"exec $*\"\n");
  }
  /// `reach`: action of ssh, with the host in $1. mpiexec gets its own address, since the name of
  /// this machine may not resolve.
  [[nodiscard]] Words hosts(const std::string& members, const std::string& reach,
                            bool by_address = true) {
    const std::string ssh = scratch_.write(
        "ssh", "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\n" + reach);
    fs::permissions(ssh, fs::perms::owner_all);
    if (by_address) launcher_ += " -localhost 127.0.0.1";
    launcher_ += " -launcher ssh -launcher-exec " + ssh;
    return {"--members", scratch_.write("members", members)};
  }
};

TEST_F(PretendedHosts, AMembersFileShrinksAndGrowsAndNoStepIsLost) {
  Words options = hosts("node1 2\nnode2 2\n");
  options.insert(options.end(), {"--min", "2", "--max", "4"});
  const auto command = this->command(options, {"--set", "train.epochs=30"});
  const std::string members = scratch_.file("members");
  const Finished finished = with_script(
      command, dir(),
      "stepped 1; echo node2 2 >" + members + "; stepped 2; echo node3 1 >>" + members, "20");
  EXPECT_TRUE(finished.says("exit=0")) << finished.output;
  EXPECT_EQ(all("start", "hosts"),
            Json({{{"node1", 2}, {"node2", 2}}, {{"node2", 2}}, {{"node2", 2}, {"node3", 1}}}))
      << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"members", "members", "completed"})) << finished.output;
  EXPECT_EQ(all("start", "lost_steps"), Json({0, 0, 0})) << finished.output;
  expect_nothing_left();
}

TEST_F(PretendedHosts, OfWhichNoneCanBeReachedEndItWithTheLaunchersWords) {
  Words options =
      hosts("node1 1\nnode2 1\n", "echo \"ssh: Could not resolve hostname $1\" >&2; exit 255\n");
  options.insert(options.end(), {"--max", "2"});
  const Finished finished = run(command(options), {}, 120);
  EXPECT_EQ(finished.exit_code, 2) << finished.output;
  EXPECT_TRUE(finished.says("ssh: Could not resolve hostname node")) << finished.output;
  EXPECT_LT(finished.seconds, 90) << finished.output;  // 10, plus a margin for a busy machine
}

TEST_F(PretendedHosts, ThatStillConnectAreWaitedForAndSaidToBe) {
  Words options = hosts("node1 1\nnode2 1\n", "echo \"Connecting to $1\" >&2; exec sleep 1000\n");
  options.insert(options.end(), {"--max", "2", "--hang-after", "12"});
  const Finished finished = run(command(options), {}, 100);
  EXPECT_EQ(finished.exit_code, 2) << finished.output;
  EXPECT_TRUE(
      finished.says("no host has answered for 8 s (node1, node2); the launcher is still "
                    "connecting and has printed: Connecting to node"))
      << finished.output;
  EXPECT_TRUE(finished.says("the launcher cannot start a process on any host")) << finished.output;
  EXPECT_GE(finished.seconds, 12) << finished.output;
  expect_nothing_left();
}

TEST_F(PretendedHosts, WhoseSshTakesTwelveSecondsAreNeitherEndedNorLost) {
  Words options = hosts("node1 1\nnode2 1\n", "sleep 12\nshift\neval \"exec $*\"\n");
  options.insert(options.end(), {"--min", "2", "--max", "2", "--rejoin", "0"});
  const Finished finished = supervise(options, {"--set", "train.epochs=1"}, "kill 1 7");
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("no host has answered for 8 s (node1, node2)")) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"killed", "completed"})) << finished.output;
}

TEST_F(PretendedHosts, OfASlurmWhoseCommandsHangAreStartedOnAllTheSame) {
  const Words options = hosts("", "shift\neval \"exec $*\"\n");
  const std::string hang = "#!/bin/sh\nexec sleep 1000\n";
  for (const auto& [name, text] : {std::pair("scontrol", std::string("#!/bin/sh\necho node1\n")),
                                   std::pair("squeue", hang), std::pair("sinfo", hang)}) {
    const std::string program = scratch_.write(std::string("bin/") + name, text);
    fs::permissions(program, fs::perms::owner_all);
  }
  const Finished finished =
      run(command({"--max", "2"}), {{"PATH", scratch_.file("bin") + ":" + std::getenv("PATH")},
                                    {"SLURM_JOB_ID", "1"},
                                    {"SLURM_JOB_NODELIST", "node1"},
                                    {"SLURM_TASKS_PER_NODE", "2"}});
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("end", "why"), Json::array({"completed"})) << finished.output;
  EXPECT_LT(finished.seconds, 120) << finished.output;  // 10, plus a margin for a busy machine
  expect_nothing_left();
}

TEST_F(PretendedHosts, AreNotReachedFromAMachineWhoseOwnNameDoesNotResolve) {
  const Words elsewhere{"unshare", "--uts", "sh", "-c", "hostname nowhere; exec \"$@\"", "sh"};
  const auto there = [&](const Words& command) {
    Words words = elsewhere;
    words.insert(words.end(), command.begin(), command.end());
    return run(words, {}, 100);
  };
  if (there({"true"}).exit_code != 0) GTEST_SKIP() << "this machine allows no namespaces";
  const std::string here = "shift\neval \"exec $*\"\n", members = "node1 1\nnode2 1\n";
  const Words more{"--set", "train.epochs=1"};
  const auto supervised = [&](bool by_address) {
    launcher_ = launcher();
    Words options = hosts(members, here, by_address);
    options.insert(options.end(), {"--max", "2"});
    return there(command(options, more));
  };
  const Finished by_name = supervised(/*by_address=*/false);
  EXPECT_EQ(by_name.exit_code, 2) << by_name.output;
  EXPECT_TRUE(by_name.says("unable to get host address for nowhere")) << by_name.output;
  EXPECT_LT(by_name.seconds, 90) << by_name.output;
  fs::remove_all(dir());
  const Finished by_address = supervised(/*by_address=*/true);
  EXPECT_EQ(by_address.exit_code, 0) << by_address.output;
}

TEST_F(PretendedHosts, LosingTheFirstNodeDoesNotLoseTheRun) {
  Words options = hosts("node1 1\nnode2 2\n");
  options.insert(options.end(), {"--min", "2", "--max", "3", "--rejoin", "1"});
  const Finished finished = supervise(
      options, {"--set", "comm.timeout=15", "--set", "train.epochs=10"}, "node 0 12", "10");
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(all("end", "why"), Json({"host lost", "completed"})) << finished.output;
  EXPECT_EQ(history("end")[0].at("blamed_hosts"), Json({"node1"})) << finished.output;
  // It never answered again, so it was not used again, and no other start was stopped for it.
  EXPECT_EQ(all("start", "ranks"), Json({3, 2})) << finished.output;
}

}  // namespace
}  // namespace lockstep::test
