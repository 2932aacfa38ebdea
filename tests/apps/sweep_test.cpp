// `lockstep sweep` with real trainings: killed, gone on with, halved, failed, refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <apps/small_run.hpp>
#include <ctime>
#include <filesystem>
#include <lockstep/base/host.hpp>
#include <lockstep/io/folder_lock.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Sweep : public ::testing::Test {
 protected:
  /// A sweep of a small deck, two trials of two ranks at a time: 10 steps an epoch.
  [[nodiscard]] Words command(const std::string& folder, const Words& more) const {
    Words words{built("apps/lockstep"), "sweep", source("inputs/synthetic.toml")};
    for (const char* set : {"data.synthetic_image_size=18", "data.synthetic_samples=570",
                            "data.synthetic_test_samples=130", "train.batch_size=60"})
      words.insert(words.end(), {"--set", set});
    words.insert(words.end(), {"--output", scratch_.file(folder), "--launcher", launcher_of_tests(),
                               "--oversubscribe", "--ranks-per-trial", "2", "--parallel", "2"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] Finished sweep(const std::string& folder, const Words& more) const {
    return run(command(folder, more));
  }
  /// While the sweep runs, in a session of its own, the shell tries `act` until it succeeds; $sweep
  /// is its process and its group. The exit code is the sweep's.
  [[nodiscard]] Finished interrupted(const std::string& folder, const Words& more,
                                     const std::string& act) const {
    return run({"bash", "-c",
                "setsid " + quoted(command(folder, more)) +
                    "& sweep=$!\nwhile kill -0 $sweep 2>/dev/null && ! { " + act +
                    "; }; do sleep 0.02; done\nwait $sweep"});
  }
  [[nodiscard]] Json json(const std::string& folder) const {
    return Json::parse(read_file(scratch_.file(folder) + "/sweep.json"));
  }
  /// The rows of the table without times.
  [[nodiscard]] std::vector<Json> rows(const std::string& folder) const {
    std::vector<Json> found;
    const Json all = json(folder);
    for (Json row : all.at("trials")) {
      row.erase("seconds");
      found.push_back(row);
    }
    return found;
  }

  ScratchFolder scratch_;
};

const Words four{"--grid", "optimizer.lr=0.05,0.01", "--grid", "train.seed=1,2"};

TEST_F(Sweep, KilledStoppedAndWithALostRankItContinuesToTheSameTable) {
  Words trials = four;
  trials.insert(trials.end(), {"--set", "train.epochs=60"});
  const Finished whole = sweep("whole", trials);
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const std::string folder = scratch_.file("parts");
  // A checkpoint may be left from the sweep before: the training must run, too.
  const auto trains = [&](int trial) {
    const std::string of = folder + "/trial-000" + std::to_string(trial);
    return "ls " + of + "/checkpoints/*.h5 >/dev/null 2>&1 && rank=$(pgrep -f '^[^ ]*classify .*" +
           of + "' | head -1) && [ -n \"$rank\" ] && ";
  };
  const Finished killed = interrupted("parts", trials, trains(1) + "kill -KILL $sweep");
  EXPECT_EQ(killed.exit_code, 137) << killed.output;

  const Finished stopped = interrupted("parts", trials, trains(2) + "kill -TERM $sweep");
  EXPECT_EQ(stopped.exit_code, 75) << stopped.output;
  EXPECT_TRUE(stopped.says("stopped: the same command goes on")) << stopped.output;
  EXPECT_TRUE(stopped.says("stopped (with the sweep)") || stopped.says("SIG")) << stopped.output;

  const Finished robbed = interrupted("parts", trials, trains(3) + "kill -KILL $rank");
  EXPECT_EQ(robbed.exit_code, 1) << robbed.output;
  EXPECT_TRUE(robbed.says("the same command tries 1 of them again")) << robbed.output;

  const Finished finished = sweep("parts", trials);
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("3 of 4 trials are done already")) << finished.output;
  EXPECT_EQ(rows("parts"), rows("whole"));
  const Json best = json("parts").at("best");
  EXPECT_EQ(best.at("trial"), rows("whole").front().at("trial"));
  EXPECT_TRUE(fs::exists(best.at("checkpoint").get<std::string>()));
  EXPECT_TRUE(finished.says("best: trial ")) << finished.output;
  EXPECT_FALSE(fs::exists(folder + "/run.lock"));
}

// Ctrl-C and a closed terminal reach every process of the group. Slurm sends what --signal names to
// the batch shell, which the sweep has replaced, and SIGTERM to all processes at the time limit.
TEST_F(Sweep, EverySignalThatAsksItToStopLosesNothingAndASecondSweepIsRefusedMeanwhile) {
  const Words trials{"--grid", "optimizer.lr=0.05,0.01", "--set", "train.epochs=100"};
  ASSERT_EQ(sweep("whole", trials).exit_code, 0);
  const std::string folder = scratch_.file("parts"), mark = scratch_.file("mark");
  const std::string second =
      quoted(command("parts", trials)) + ">" + scratch_.file("second") + " 2>&1; echo second=$?; ";
  for (const std::string& ask :
       {second + "kill -INT -- -$sweep", std::string("kill -USR1 $sweep"),
        std::string("kill -TERM -- -$sweep"), std::string("kill -HUP -- -$sweep")}) {
    scratch_.write("mark", "");
    std::string both_have_trained;
    for (const char* trial : {"0", "1"}) {
      both_have_trained += "[ -n \"$(find " + folder + "/trial-000" + trial +
                           " -name 'step-*.h5' -newer " + mark + " 2>/dev/null)\" ] && ";
    }
    const Finished stopped = interrupted("parts", trials, both_have_trained + "{ " + ask + "; }");
    EXPECT_EQ(stopped.exit_code, 75) << ask << stopped.output;
    EXPECT_TRUE(stopped.output.ends_with("\nstopped: the same command goes on\n"))
        << ask << stopped.output;
    EXPECT_EQ(stopped.says("second="), ask.starts_with(second));
    EXPECT_EQ(stopped.says("second=2\n"), ask.starts_with(second)) << stopped.output;
    EXPECT_NE(run({"pgrep", "-f", "run.dir=.*" + folder}).exit_code, 0) << ask;
    EXPECT_FALSE(fs::exists(folder + "/run.lock"));
    for (const Json& row : rows("parts")) {
      EXPECT_GT(row.at("steps"), 0) << ask << row;
      EXPECT_FALSE(row.at("stopped").get<std::string>().empty()) << ask << row;
    }
  }
  const std::string refusal = read_file(scratch_.file("second"));
  EXPECT_NE(refusal.find("another sweep is using the sweep folder " + folder), std::string::npos)
      << refusal;
  EXPECT_NE(refusal.find("name another folder with --output."), std::string::npos) << refusal;

  const Finished finished = sweep("parts", trials);
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(rows("parts"), rows("whole"));
  EXPECT_NE(read_file(folder + "/trial-0000/log.txt").find("resumed from "), std::string::npos);
}

// Whichever trial it is: one that was looked at before is told, too.
TEST_F(Sweep, ASignalThatStopsATrialStopsTheOthers) {
  for (const char* signalled : {"0", "1"}) {
    const std::string folder = scratch_.file(signalled);
    std::string act;
    for (const char* trial : {"0", "1"})
      act += "ls " + folder + "/trial-000" + trial + "/checkpoints/*.h5 >/dev/null 2>&1 && ";
    act += "kill -USR1 $(pgrep -f '^[^ ]*classify .*" + folder + "/trial-000" + signalled +
           "' | head -1)";
    const Finished stopped = interrupted(
        signalled, {"--grid", "optimizer.lr=0.05,0.01", "--set", "train.epochs=100000"}, act);
    EXPECT_EQ(stopped.exit_code, 75) << stopped.output;
    for (const Json& row : rows(signalled))
      EXPECT_FALSE(row.at("stopped").get<std::string>().empty()) << row;
  }
}

TEST_F(Sweep, ALimitOfTimeEndsItsTrialsAndOneOfTheJobTheSweep) {
  const Words trials{"--grid", "optimizer.lr=0.05,0.01,0.02", "--set", "train.epochs=100000"};
  // On a busy machine a trial may not come to its first step by then: others have more time.
  const auto have_trained = [&](const std::string& folder, std::size_t first) {
    const auto all = rows(folder);
    return std::all_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first),
                       [](const Json& row) { return row.at("steps") > 0; });
  };
  Finished each;
  for (const char* minutes : {"0.02", "0.1", "0.5"}) {
    fs::remove_all(scratch_.file("each"));
    Words limited = trials;
    limited.insert(limited.end(), {"--set", std::string("run.max_minutes=") + minutes});
    each = sweep("each", limited);
    if (have_trained("each", 3)) break;
  }
  EXPECT_EQ(each.exit_code, 75) << each.output;
  EXPECT_TRUE(each.output.ends_with("\nstopped: the same command goes on\n")) << each.output;
  for (const Json& row : rows("each")) {
    EXPECT_EQ(row.at("stopped"), "run.max_minutes");
    EXPECT_GT(row.at("steps"), 0);
  }

  // Two trials stop before the job's end, and the third does not begin.
  Words in_job = trials;
  in_job.insert(in_job.end(), {"--set", "run.stop_before_limit_s=1", "--members",
                               scratch_.write("hosts", host_name() + " 4\n")});
  Finished job;
  for (const int limit_s : {4, 12, 40}) {
    fs::remove_all(scratch_.file("job"));
    const std::string end = std::to_string(std::time(nullptr) + limit_s);
    job = run(command("job", in_job), {{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_END_TIME", end}});
    if (have_trained("job", 2)) break;
  }
  EXPECT_EQ(job.exit_code, 75) << job.output;
  EXPECT_TRUE(job.says("stopped (time limit of the job)")) << job.output;
  const auto of_job = rows("job");
  for (const int row : {0, 1}) EXPECT_GT(of_job.at(row).at("steps"), 0) << of_job.at(row);
  EXPECT_EQ(of_job.at(2).at("steps"), 0);
  EXPECT_FALSE(fs::exists(scratch_.file("job/trial-0002")));
}

TEST_F(Sweep, HalvingPromotesTheBestWhichTrainAsIfNothingHadStoppedThem) {
  const Words random{"--random", "optimizer.lr=log:0.01:0.5",
                     "--trials", "4",
                     "--seed",   "7",
                     "--set",    "schedule.kind=\"cosine\"",
                     "--set",    "train.epochs=4"};
  Words halved = random;
  halved.insert(halved.end(), {"--halving", "epochs:1", "--eta", "2"});
  const Finished finished = sweep("halved", halved);
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  const Finished plain = sweep("plain", random);
  ASSERT_EQ(plain.exit_code, 0) << plain.output;

  auto trials = rows("halved");
  std::ranges::sort(trials, {}, [](const Json& row) { return row.at("trial").get<int>(); });
  // The rungs that the metrics alone demand: 4 trials, the best 2 of them, the best 1 of those.
  std::vector<int> left{0, 1, 2, 3};
  for (std::size_t rung = 0; rung < 3; ++rung) {
    for (const Json& trial : trials) {
      const bool is_in = std::ranges::find(left, trial.at("trial").get<int>()) != left.end();
      EXPECT_EQ(trial.at("rungs").size() > rung, is_in) << rung << trial;
    }
    std::ranges::sort(left, {}, [&](int trial) { return trials.at(trial).at("rungs").at(rung); });
    left.resize(left.size() / 2);
  }
  const Json first = rows("halved").front();
  EXPECT_EQ(first.at("rungs").size(), 3U);
  EXPECT_EQ(first.at("whole"), true);
  for (const Json& row : rows("plain")) {
    if (row.at("trial") != first.at("trial")) continue;
    EXPECT_EQ(row.at("test_loss"), first.at("test_loss"));
  }
  const std::string log =
      read_file(scratch_.file("halved") + "/" + first.at("run").get<std::string>() + "/log.txt");
  EXPECT_NE(log.find("resumed from "), std::string::npos) << log;

  // In steps, with an evaluation in the middle of an epoch.
  Words steps = random;
  steps.insert(steps.end(), {"--halving", "steps:7", "--eta", "4"});
  ASSERT_EQ(sweep("steps", steps).exit_code, 0);
  for (const Json& row : rows("steps")) {
    EXPECT_EQ(row.at("steps"), row.at("whole") == true ? 40 : 7) << row;
    EXPECT_TRUE(row.at("test_loss").is_number());
  }
}

TEST_F(Sweep, AFailedTrialIsARowWithItsReasonAndTheOthersRun) {
  const Words bad{"--grid", "optimizer.lr=1e30,0.05,5e-2"};
  const Finished finished = sweep("bad", bad);
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("2 trials; 1 are the same as another")) << finished.output;
  EXPECT_TRUE(finished.says("1 of 2 trials failed\n")) << finished.output;
  const auto found = rows("bad");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].at("settings").at("optimizer.lr"), "0.05");
  EXPECT_TRUE(found[1].at("failed").get<std::string>().starts_with("the loss is "));
  EXPECT_TRUE(found[1].at("test_loss").is_null());
  const Finished again = sweep("bad", bad);
  EXPECT_TRUE(again.says("2 of 2 trials are done already")) << again.output;
  EXPECT_EQ(rows("bad"), found);

  // All that the data alone can tell: the trials fail, and nothing is best.
  const Finished none =
      sweep("none", {"--grid", "data.synthetic_classes=2,3", "--set", "loss.class_weights=[1.0]"});
  EXPECT_EQ(none.exit_code, 1) << none.output;
  EXPECT_TRUE(none.says("2 of 2 trials failed")) << none.output;
}

TEST_F(Sweep, RefusesWithASentenceBeforeAnythingStarts) {
  struct Case {
    Words words;
    const char* said;
  };
  const std::vector<Case> cases{
      {{}, "name the keys to vary"},
      {{"--grid", "optimizer.lrr=0.1"}, "Did you mean lr?"},
      {{"--grid", "optimizer.lr=0.1,-1"}, "optimizer.lr=-1: optimizer.lr = -1 is out of range"},
      {{"--grid", "optimizer.kind=\"sgd\",\"adm\""}, "\"adm\""},
      {{"--grid", "run.dir=\"a\",\"b\""}, "run.dir cannot be varied"},
      {{"--grid", "train.batch_size=60,30"}, "--set gives it one value"},
      {{"--grid", "train.epochs=4,8", "--halving", "epochs:1"}, "whose last rung it is"},
      {{"--grid", "train.seed=1,2", "--halving", "epochs:3"}, "the first rung must have fewer"},
      {{"--grid", "train.seed=1,2", "--halving", "days:3"}, "expected epochs:N or steps:N"},
      {{"--grid", "train.seed=1,2", "--metric", "test_los"}, "Did you mean test_loss?"},
      {{"--grid", "train.seed=1,2", "--set", "data.validation_fraction=0.2", "--metric",
        "test_loss", "--halving", "epochs:1"},
       "halving needs a figure of that set"},
      {{"--grid", "train.seed=1,2", "--only", "2"}, "--only 2: the last trial is 1"},
      {{"--grid", "train.seed=1,2", "--only", "1", "--halving", "epochs:1"}, "leave one out"},
      {{"--grid", "train.seed=1,2", "--program", "no_such"}, "no_such is not a program"},
      {{"--grid", "train.seed=1,2", "--program", built("tests/apps/misbehave"), "--metric", "x"},
       "is a smaller x better?"},
      {{"--grid", "train.seed=1,2", "--program", built("tests/apps/misbehave")},
       "--program needs --metric"},
      {{"--random", "train.seed=int:1:9"}, "--random needs --trials"},
      {{"--grid", "train.seed=1,2", "--set", "run.stop_after_epochs=1"},
       "Set train.epochs instead"},
      {{"--grid", "train.seed=1,2", "--set", "data.test_set=false", "--metric", "test_loss"},
       "--metric test_loss is not a metric of these runs"},
  };
  for (const auto& [words, said] : cases) {
    const Finished finished = sweep("refused", words);
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says(said)) << said << ": " << finished.output;
    EXPECT_FALSE(fs::exists(scratch_.file("refused"))) << said;
  }
  const auto bare = [&](const char* option, const char* value) {
    const Finished finished =
        run({built("apps/lockstep"), "sweep", source("inputs/synthetic.toml"), "--grid",
             "train.seed=1,2", option, value, "-o", scratch_.file("refused")});
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    return finished.output;
  };
  EXPECT_NE(bare("--ranks-per-trial", "4096").find("no room for 1 trial of 4096 ranks"),
            std::string::npos);
  EXPECT_NE(bare("--launcher", "no_such").find("no_such is not an executable"), std::string::npos);
}

TEST_F(Sweep, RefusesAFolderOfAnotherSweepOfSomethingElseOrInUse) {
  const Words one{"--grid", "train.seed=1", "--set", "train.epochs=1"};
  ASSERT_EQ(sweep("one", one).exit_code, 0);
  const auto refusal = [&](const Words& words) {
    const Finished finished = sweep("one", words);
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    return finished.output;
  };
  EXPECT_NE(refusal({"--grid", "train.seed=1"}).find("another deck or --set"), std::string::npos);
  EXPECT_NE(refusal({"--grid", "train.seed=1,2", "--set", "train.epochs=1"}).find("another grid"),
            std::string::npos);
  {
    const FolderLock lock(scratch_.file("one"));
    EXPECT_NE(refusal(one).find(std::to_string(getpid())), std::string::npos);
  }
  fs::create_directory(scratch_.file("other"));
  scratch_.write("other/notes.txt", "x");
  const Finished other = sweep("other", one);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(other.says("holds other files than a sweep's: notes.txt")) << other.output;
}

TEST_F(Sweep, TasksOfAnArrayRunATrialEachAndTheCommandWithoutThemMakesTheTable) {
  const Words two{"--grid", "train.seed=1,2", "--set", "train.epochs=2"};
  Words script = two;
  script.insert(script.end(), {"--script", "slurm"});
  const Finished printed = sweep("array", script);
  EXPECT_TRUE(printed.says("#SBATCH --array=0-1\n#SBATCH --ntasks=2\n")) << printed.output;
  EXPECT_FALSE(fs::exists(scratch_.file("array")));
  std::string tasks;
  for (const char* index : {"0", "1"}) {
    Words task = two;
    task.insert(task.end(), {"--only", index});
    tasks += quoted(command("array", task)) + " & ";
  }
  const Finished ran = run({"bash", "-c", tasks + "wait -n && wait -n"});
  ASSERT_EQ(ran.exit_code, 0) << ran.output;
  EXPECT_TRUE(ran.says("trial 0/2: ") && ran.says("trial 1/2: ")) << ran.output;
  const Finished whole = sweep("array", two);
  EXPECT_EQ(whole.exit_code, 0) << whole.output;
  EXPECT_TRUE(whole.says("2 of 2 trials are done already")) << whole.output;
  EXPECT_EQ(rows("array").size(), 2U);
}

TEST_F(Sweep, AUsersProgramIsSweptByItsOwnMetric) {
  const Words own{"--grid",         "train.seed=1,2", "--set",
                  "train.epochs=1", "--program",      built("tests/apps/misbehave"),
                  "--metric",       "test_accuracy"};
  Words dry = own;
  dry.emplace_back("--dry-run");
  const Finished printed = sweep("own", dry);
  EXPECT_TRUE(printed.says(" -n 2 " + built("tests/apps/misbehave") + " ")) << printed.output;
  EXPECT_TRUE(printed.says("--set train.seed=2 ")) << printed.output;
  const Finished finished = sweep("own", own);
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  const auto found = rows("own");
  EXPECT_GE(found[0].at("test_accuracy"), found[1].at("test_accuracy")) << "a larger one is better";
  EXPECT_EQ(json("own").at("sweep").at("mode"), "max");
}

}  // namespace
}  // namespace lockstep::test
