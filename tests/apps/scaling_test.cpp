// `lockstep scaling` with real runs: measured, killed, gone on with, refused.
#include <gtest/gtest.h>

#include <apps/small_run.hpp>
#include <filesystem>
#include <lockstep/base/host.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Scaling : public ::testing::Test {
 protected:
  [[nodiscard]] std::string folder() const { return scratch_.file("study"); }
  /// The study of a small deck on 1 and 2 ranks.
  [[nodiscard]] Words command(const Words& more) const {
    Words words{built("apps/lockstep"),
                "scaling",
                source("inputs/synthetic.toml"),
                "--set",
                "data.synthetic_image_size=18",
                "--set",
                "train.batch_size=64",
                "--output",
                folder(),
                "--launcher",
                launcher_of_tests()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] Finished study(const Words& more) const { return run(command(more)); }

  /// When each finished point was written, by name.
  [[nodiscard]] std::map<std::string, fs::file_time_type> points() const {
    std::map<std::string, fs::file_time_type> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder() + "/points", error)) {
      if (entry.path().extension() == ".json")
        found[entry.path().stem().string()] = entry.last_write_time();
    }
    return found;
  }
  [[nodiscard]] Json json() const { return Json::parse(read_file(folder() + "/scaling.json")); }

  ScratchFolder scratch_;
};

const Words short_study{"--ranks", "1,2", "--repeat", "2", "--steps", "20", "--warmup", "4"};

TEST_F(Scaling, AStudyThatIsKilledAndThenStoppedGoesOnWhereItWas) {
  // The shell waits for so many points, sends the signal, and returns the study's exit code.
  const auto interrupted = [&](const char* signal, int points_first) {
    return run({"bash", "-c",
                quoted(command(short_study)) + " & study=$!\n" + "until [ \"$(ls " + folder() +
                    "/points 2>/dev/null | grep -c json$)\" -ge " + std::to_string(points_first) +
                    " ]; do sleep 0.02; done\n" + "kill -" + signal + " $study; wait $study"});
  };
  const Finished killed = interrupted("KILL", 2);
  EXPECT_EQ(killed.exit_code, 137) << killed.output;
  const auto first = points();
  ASSERT_GE(first.size(), 2U);

  const Finished stopped = interrupted("INT", 4);
  EXPECT_EQ(stopped.exit_code, 75) << stopped.output;
  EXPECT_TRUE(stopped.says("are done; the same command goes on")) << stopped.output;
  const auto second = points();
  ASSERT_LT(second.size(), 6U) << stopped.output;
  // As of a study that was killed after a point, before it removed the point's run.
  fs::create_directories(folder() + "/runs/" + second.begin()->first);

  const Finished finished = study(short_study);
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  const auto all = points();
  EXPECT_EQ(all.size(), 6U) << finished.output;
  for (const auto& [name, time] : first) EXPECT_EQ(all.at(name), time) << name << stopped.output;
  for (const auto& [name, time] : second) EXPECT_EQ(all.at(name), time) << name;
  EXPECT_TRUE(finished.says(std::to_string(second.size()) + " of 6 points are done already"));
  EXPECT_TRUE(finished.says("point 6/6: 2 ranks, repeat 2: ")) << finished.output;

  const Json study = json();
  EXPECT_EQ(study.at("study").at("mode"), "strong");
  ASSERT_EQ(study.at("sizes").size(), 2U);
  ASSERT_EQ(study.at("samples").size(), 4U);
  for (const Json& sample : study.at("samples")) {
    std::int64_t steps = 0;
    for (const Json& interval : sample.at("intervals")) {
      EXPECT_GT(interval.at("first_step"), 4);
      EXPECT_GT(interval.at("seconds"), 0.0);
      steps += interval.at("steps").get<std::int64_t>();
    }
    EXPECT_EQ(steps, 20);
    EXPECT_EQ(sample.at("peak_rss_mib").size(), sample.at("ranks").get<std::size_t>());
  }
  EXPECT_EQ(study.at("sizes").at(0).at("speed_up"), 1.0);
  EXPECT_EQ(study.at("sizes").at(1).at("repeats"), 2);
  ASSERT_EQ(study.at("benchmarks").size(), 2U);
  EXPECT_EQ(study.at("benchmarks").at(1).at("collectives").size(), 20U);
  for (const Json& one : study.at("benchmarks").at(1).at("collectives")) {
    const double factor = one.at("op") == "all_reduce" || one.at("op") == "broadcast" ? 1 : 0.5;
    EXPECT_DOUBLE_EQ(one.at("busbw_gb_per_s"), factor * one.at("algbw_gb_per_s").get<double>());
  }
  EXPECT_TRUE(read_file(folder() + "/scaling.svg").starts_with("<?xml"));
  EXPECT_FALSE(fs::exists(folder() + "/runs"));
  EXPECT_FALSE(fs::exists(folder() + "/run.lock"));

  const Finished same = run({built("apps/lockstep"), "scaling", "--compare", folder(), folder()});
  EXPECT_EQ(same.exit_code, 0);
  EXPECT_TRUE(same.says("1.000  within the scatter")) << same.output;
}

// On fewer cores than ranks some are not on cores of their own; the study says so.
TEST_F(Scaling, PredictsHeldOutAndLargerSizesAndTriesWhatHelpsMost) {
  Words words = short_study;
  words.insert(words.end(),
               {"--weak", "--oversubscribe", "--ranks", "4", "--fit", "1,2", "--predict", "512",
                "--ranks-a-node", "8", "--network", "2,12.5", "--try-best"});
  const Finished finished = study(words);
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("predicted from 1, 2 ranks")) << finished.output;
  EXPECT_TRUE(finished.says("held out")) << finished.output;
  EXPECT_TRUE(finished.says("% predicted, ")) << finished.output;
  const Json prediction = json().at("prediction");
  ASSERT_EQ(prediction.at("sizes").size(), 4U) << finished.output;
  const Json &held = prediction.at("sizes").at(2), &far = prediction.at("sizes").at(3);
  EXPECT_EQ(held.at("ranks"), 4);
  EXPECT_EQ(held.at("held_out"), true);
  EXPECT_TRUE(held.contains("error")) << held;
  EXPECT_EQ(far.at("ranks"), 512);
  EXPECT_EQ(far.at("nodes"), 64);
  EXPECT_EQ(far.at("batch_size"), 64 * 512);
  EXPECT_GT(far.at("step_ms"), 0.0);
  EXPECT_FALSE(far.contains("measured_step_ms"));
  EXPECT_EQ(prediction.at("model").at("in_node").size(), 4U);
  EXPECT_EQ(prediction.at("advice").size(), 7U);
  EXPECT_TRUE(prediction.contains("tried"));
  EXPECT_TRUE(prediction.at("tried").contains("measured_gain"));
}

TEST_F(Scaling, AFailedPointIsNotedAndTheOthersAreMeasured) {
  // 600 samples are enough for one rank's batch, and not for two.
  const Words weak{"--ranks",  "1,2",
                   "--repeat", "1",
                   "--steps",  "4",
                   "--warmup", "1",
                   "--weak",   "--no-benchmarks",
                   "--set",    "data.synthetic_samples=100"};
  const Finished finished = study(weak);
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_TRUE(finished.says("point 2/2: 2 ranks, repeat 1: failed: a step had 100 samples"))
      << finished.output;
  const Json study = json();
  EXPECT_EQ(study.at("sizes").at(1).at("repeats"), 0);
  EXPECT_TRUE(study.at("samples").at(1).at("failed").get<std::string>().ends_with("too small"));
  EXPECT_TRUE(fs::exists(folder() + "/runs/2_ranks_1_nodes_repeat_1/log.txt"));  // to look at
}

TEST_F(Scaling, APointThatTakesTooLongHasFailed) {
  const Finished finished = study(
      {"--ranks", "1", "--repeat", "1", "--steps", "100000000", "--no-benchmarks", "--limit", "1"});
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_TRUE(finished.says("not done in its time (--limit), with ")) << finished.output;
}

TEST_F(Scaling, RefusesWithASentenceWhatCannotBeMeasured) {
  struct Case {
    Words words;
    const char* said;
  };
  const std::vector<Case> cases{
      {{"--ranks", "1,4096"}, "4096 ranks are more than the"},
      {{}, "--ranks names no numbers of ranks"},
      {{"--ranks", "1", "--nodes", "2"}, "--nodes 2: there is 1 here"},
      {{"--ranks", "1", "--set", "train.epoch=1"}, "epochs"},
      {{"--ranks", "1", "--program", "no_such_program"}, "no_such_program is not a program"},
      {{"--ranks", "1", "--strong", "--weak"}, "excludes"},
      {{"--ranks", "0"}, "--ranks"},
      {{"--ranks", "1", "--predict", "0"}, "--predict"},
      {{"--ranks", "1", "--network", "2"}, "--network"},
      {{"--ranks", "1", "--predict", "8", "--program", built("apps/classify")},
       "leave --program out"},
  };
  for (const auto& [words, said] : cases) {
    const Finished finished = study(words);
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says(said)) << finished.output;
    EXPECT_FALSE(fs::exists(folder())) << said;
  }
  const Finished nothing = run({built("apps/lockstep"), "scaling"});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_TRUE(nothing.says("name a DECK")) << nothing.output;
  Words inside =
      app(1, "apps/lockstep",
          {"scaling", source("inputs/synthetic.toml"), "--ranks", "1", "--output", folder()});
  const Finished under = run(inside);
  EXPECT_TRUE(under.ended_with(2)) << under.output;
  EXPECT_TRUE(under.says("start it without mpiexec")) << under.output;
}

TEST_F(Scaling, RefusesToGoOnWithAnotherDeckOrOnAnotherMachine) {
  const Words one{"--ranks",  "1", "--repeat",       "1", "--steps", "4",
                  "--warmup", "0", "--no-benchmarks"};
  ASSERT_EQ(study(one).exit_code, 0);
  Words other = one;
  other.insert(other.end(), {"--set", "optimizer.lr=0.5"});
  EXPECT_TRUE(study(other).says("holds a study of another deck"));
  const std::string file = folder() + "/study.json";
  Json identity = Json::parse(read_file(file));
  for (const auto& [key, said] :
       {std::pair{"cpu", "another machine"}, {"git_commit", "another version"}}) {
    Json changed = identity;
    changed[key] = "else";
    scratch_.write("study/study.json", changed.dump());
    const Finished refused = study(one);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_TRUE(refused.says(said)) << refused.output;
  }
}

TEST_F(Scaling, OversubscribedPointsAreMeasuredAndMarked) {
  const std::string ranks = std::to_string(std::thread::hardware_concurrency() + 1);
  const Finished finished = study({"--ranks", ranks, "--repeat", "1", "--steps", "2", "--warmup",
                                   "0", "--no-benchmarks", "--oversubscribe"});
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("* more ranks than cores")) << finished.output;
  EXPECT_EQ(json().at("sizes").at(0).at("oversubscribed"), true);
}

TEST_F(Scaling, AJobScriptAsksForTheFullestNodeOfAnySize) {
  const Finished printed =
      study({"--ranks", "8,12", "--nodes", "1,3", "--threads", "2", "--script", "slurm"});
  EXPECT_EQ(printed.exit_code, 0);
  EXPECT_TRUE(printed.says("--nodes=3\n#SBATCH --ntasks-per-node=8\n#SBATCH --cpus-per-task=2\n"))
      << printed.output;
}

// Stand-ins play the part of PBS and Flux around the script: the files and variables that it reads,
// `flux hostlist`, and `flux run`, which starts the ranks by the tests' launcher.
TEST_F(Scaling, TheScriptsOfPbsAndFluxRunTheStudyAndASignalReachesIt) {
  const std::string host = host_name();
  scratch_.write("nodes", host + "\n" + host + "\n");
  scratch_.write("bin/flux",
                 "#!/bin/bash\n"
                 "case \"$1 $2\" in\n"
                 "'hostlist --expand') [ \"$3\" = instance ] && echo " +
                     host +
                     " ;;\n"
                     "'run --cores-per-task=1') nodes=${3#--nodes=} ranks=${4#--ntasks=}\n"
                     "  [ \"$nodes\" = 1 ] && exec " +
                     launcher_of_tests() +
                     " -n \"$ranks\" \"${@:5}\" ;;\n"
                     "*) echo \"flux $*\" >&2; exit 1 ;;\nesac\n");
  fs::permissions(scratch_.file("bin/flux"), fs::perms::owner_all);
  const auto words = [&](const std::string& kind) {
    Words all{built("apps/lockstep"), "scaling", source("inputs/synthetic.toml")};
    all.insert(all.end(), {"--set", "data.synthetic_image_size=18", "--set", "train.batch_size=64",
                           "--output", kind, "--no-benchmarks"});
    all.insert(all.end(), short_study.begin(), short_study.end());
    if (kind == "pbs") all.insert(all.end(), {"--launcher", launcher_of_tests()});
    all.insert(all.end(), {"--script", kind});
    return all;
  };
  for (const std::string kind : {"pbs", "flux"}) {
    const Finished printed = run(words(kind));
    ASSERT_EQ(printed.exit_code, 0) << printed.output;
    scratch_.write("job.sh", printed.output);
    const std::string job =
        "cd " + (kind == "pbs" ? std::string("/") : scratch_.path()) +
        "; export PATH=" + scratch_.file("bin") + ":$PATH TMPDIR=" + scratch_.path() +
        " FLUX_JOB_TMPDIR=" + scratch_.path() + " PBS_NODEFILE=" + scratch_.file("nodes") +
        " PBS_O_WORKDIR=" + scratch_.path() + "; exec bash " + scratch_.file("job.sh");
    const Finished stopped =
        run({"bash", "-c",
             "(" + job + ") & job=$!\nuntil [ \"$(ls " + scratch_.file(kind) +
                 "/points 2>/dev/null | grep -c json$)\" -ge 1 ]; do sleep 0.02; done\n" +
                 "kill -TERM $job; wait $job"});
    EXPECT_EQ(stopped.exit_code, 75) << kind << stopped.output;
    EXPECT_TRUE(stopped.says("are done; the same command goes on")) << stopped.output;
    const Finished finished = run({"bash", "-c", job});
    EXPECT_EQ(finished.exit_code, 0) << kind << finished.output;
    EXPECT_TRUE(finished.says(" of 4 points are done already")) << finished.output;
    const Json study = Json::parse(read_file(scratch_.file(kind) + "/scaling.json"));
    EXPECT_EQ(study.at("sizes").size(), 2U);
    EXPECT_EQ(study.at("sizes").at(1).at("repeats"), 2);
  }
}

TEST_F(Scaling, HostsAndSlotsMayBeNamed) {
  const std::string members = scratch_.write("members", "a 2\nb 2\n");
  const Finished printed = study({"--ranks", "2,4", "--nodes", "2", "--members", members,
                                  "--repeat", "1", "--no-benchmarks", "--dry-run"});
  EXPECT_TRUE(printed.says(" -hosts a:1,b:1 -n 2 ")) << printed.output;
  EXPECT_TRUE(printed.says(" -hosts a:2,b:2 -n 4 ")) << printed.output;
}

TEST(Bench, PrintsMemoryProductsAndCollectivesOfAllRanks) {
  const Finished finished = run(app(2, "apps/lockstep", {"bench", "--seconds", "0.5"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  const Json speed = Json::parse(finished.output);
  EXPECT_EQ(speed.at("ranks"), 2);
  for (const auto& [what, unit] : {std::pair{"memory", "gb_per_s"}, {"products", "gflop_per_s"}}) {
    const auto ranks = speed.at(what).at(unit).get<std::vector<double>>();
    ASSERT_EQ(ranks.size(), 2U);
    for (const double value : ranks) EXPECT_GT(value, 0) << what;
  }
  std::map<std::string, std::vector<std::int64_t>> sizes;
  for (const Json& one : speed.at("collectives"))
    sizes[one.at("op")].push_back(one.at("bytes").get<std::int64_t>());
  EXPECT_EQ(sizes.size(), 4U);
  for (const auto& [op, bytes] : sizes)
    EXPECT_EQ(bytes, (std::vector<std::int64_t>{1 << 10, 1 << 14, 1 << 18, 1 << 22, 25 << 20}));
}

TEST_F(Scaling, ADryRunPrintsTheCommandsAndAProgramOfOnesOwnIsMeasured) {
  const Words own{"--ranks",
                  "2",
                  "--repeat",
                  "1",
                  "--steps",
                  "4",
                  "--warmup",
                  "0",
                  "--no-benchmarks",
                  "--program",
                  built("tests/apps/misbehave")};
  Words dry = own;
  dry.emplace_back("--dry-run");
  const Finished printed = study(dry);
  EXPECT_EQ(printed.exit_code, 0);
  EXPECT_TRUE(printed.says(" -n 2 " + built("tests/apps/misbehave") + " ")) << printed.output;
  EXPECT_FALSE(fs::exists(folder()));
  const Finished finished = study(own);
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_EQ(json().at("study").at("program"), "misbehave");
}

}  // namespace
}  // namespace lockstep::test
