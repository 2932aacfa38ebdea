// Files of a run for other programs: Prometheus, a log a rank, CSV. TensorBoard:
// tensorboard_test.cpp.
#include <gtest/gtest.h>

#include <apps/fault.hpp>
#include <apps/results.hpp>
#include <apps/small_run.hpp>
#include <filesystem>
#include <fstream>
#include <lockstep/base/host.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> with(const std::string& dir, const std::vector<std::string>& keys,
                              std::vector<std::string> more = {}) {
  for (const std::string& key : keys) more.insert(more.end(), {"--set", key});
  return small_run(dir, more);
}

std::string rank_log(const std::string& dir, int rank) {
  return dir + "/logs/rank-000" + std::to_string(rank) + "." + host_name() + ".log";
}

/// Samples by name, of one file, as Prometheus' own client parses them: {"name": value} where the
/// labels are run and task alone, else {"name{set}": value}.
nlohmann::json parsed(const std::string& file) {
  const Finished finished = run({"/usr/bin/python3", "-c", R"(
import json, sys
from prometheus_client.parser import text_string_to_metric_families
found = {}
for family in text_string_to_metric_families(open(sys.argv[1]).read()):
    assert family.documentation and family.type != "unknown", family
    for sample in family.samples:
        labels = dict(sample.labels)
        assert labels.pop("run") and labels.pop("task") == "classify", sample
        found[sample.name + "".join(f"[{v}]" for v in labels.values())] = sample.value
print(json.dumps(found)))",
                                 file});
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  return nlohmann::json::parse(finished.output);
}

bool has_prometheus_client() {
  return run({"/usr/bin/python3", "-c", "import prometheus_client"}).exit_code == 0;
}

TEST(Outputs, AreNotWrittenUnlessAskedFor) {
  const ScratchFolder scratch;
  static_cast<void>(good(classify(1, small_run(scratch.file("run")))));
  for (const char* name : {"tensorboard", "metrics.prom", "logs"})
    EXPECT_FALSE(fs::exists(scratch.file("run/") + name)) << name;
}

TEST(Prometheus, ReadsTheRunsNewestFiguresAndItsRestarts) {
  if (!has_prometheus_client())
    GTEST_SKIP() << "python3 has no prometheus_client (Debian: python3-prometheus-client)";
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run"), file = dir + "/metrics.prom";
  static_cast<void>(good(classify(2, with(dir, {"log.prometheus=true"}))));
  const auto rows = results(dir);
  const auto first = parsed(file);
  EXPECT_EQ(first.at("lockstep_running"), 0);
  EXPECT_EQ(first.at("lockstep_restarts_total"), 0);
  EXPECT_EQ(first.at("lockstep_ranks"), 2);
  EXPECT_EQ(first.at("lockstep_step"), 40);
  EXPECT_EQ(first.at("lockstep_last_checkpoint_step"), 40);
  EXPECT_GT(first.at("lockstep_samples_per_second"), 0);
  EXPECT_GE(first.at("lockstep_last_update_timestamp_seconds"),
            first.at("lockstep_last_checkpoint_timestamp_seconds"));
  EXPECT_EQ(first.at("lockstep_loss[test]"), rows.back().at("loss"));
  EXPECT_EQ(first.at("lockstep_metric[test][accuracy]"), rows.back().at("accuracy"));
  static_cast<void>(
      good(classify(1, with(dir, {"log.prometheus=true", "train.epochs=5"}, {"--resume"}))));
  const auto second = parsed(file);
  EXPECT_EQ(second.at("lockstep_restarts_total"), 1);
  EXPECT_EQ(second.at("lockstep_ranks"), 1);
  EXPECT_EQ(second.at("lockstep_step"), 50);
}

TEST(Outputs, ThatCannotBeWrittenAreWarningsAndTheRunGoesOn) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  fs::create_directories(dir + "/metrics.prom");
  for (const char* name : {"tensorboard", "logs"})
    scratch.write(std::string("run/") + name, "a file where the folder should be");
  const Finished finished =
      classify(2, with(dir, {"log.tensorboard=true", "log.prometheus=true", "log.ranks=true",
                             "log.histogram_every_steps=5"}));
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  for (const char* said :
       {"TensorBoard's files in ", "metrics.prom", "there is no log of this rank (log.ranks)"})
    EXPECT_TRUE(finished.says(said)) << said << "\n" << finished.output;
  EXPECT_TRUE(completed(dir));
}

class RankLogs : public testing::TestWithParam<bool> {};

TEST_P(RankLogs, HaveTimeRankAndHostInEveryLineAndGoOnWhereTheRunDoes) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  const auto train = [&](const std::vector<std::string>& more) {
    auto arguments = with(dir, {"log.ranks=true"}, more);
    if (!GetParam()) return good(classify(2, arguments));
    arguments.insert(arguments.end(), {"--ranks-as-threads", "2"});
    arguments.insert(arguments.begin(), built("apps/classify"));
    return good(run(arguments));
  };
  static_cast<void>(train({}));
  std::vector<std::string> before;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string text = read_file(rank_log(dir, rank));
    before.push_back(text);
    const std::string who = " rank " + std::to_string(rank) + " " + host_name() + " info ";
    std::istringstream lines(text);
    int steps = 0;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_NE(line.find(who), std::string::npos) << line;
      EXPECT_EQ(line.at(4), '-') << line;
      steps += line.find(" ms, of them forward ") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(steps, 20) << text;
    EXPECT_NE(text.find("this rank ends: all is done"), std::string::npos) << text;
  }
  // A killed rank may leave half a line.
  std::ofstream(rank_log(dir, 1), std::ios::app) << "half a li";
  static_cast<void>(train({"--resume", "--set", "train.epochs=5"}));
  const std::string after = read_file(rank_log(dir, 1));
  EXPECT_TRUE(after.starts_with(before[1] + "half a li\n2")) << after;
  EXPECT_NE(after.find("begins at step 40"), std::string::npos) << after;
}

INSTANTIATE_TEST_SUITE_P(AsProcessesAndThreads, RankLogs, testing::Bool());

TEST(RankLogs, NameTheFailureOfTheRankThatFailed) {
  const ScratchFolder scratch;
  const std::string dir = scratch.file("run");
  const Fault fault = misbehave(2, "throw 1 13", with(dir, {"log.ranks=true"}));
  EXPECT_NE(fault.finished.exit_code, 0) << fault.finished.output;
  const std::string text = read_file(rank_log(dir, 1));
  EXPECT_NE(text.find(" error this rank ends with a failure: "), std::string::npos) << text;
  EXPECT_NE(text.find(" error last call 10 of 10: "), std::string::npos) << text;
}

TEST(Export, WritesOneColumnAFigureAndOneLineARow) {
  const ScratchFolder scratch;
  const std::string file =
      scratch.write("metrics.jsonl",
                    R"({"kind":"step","step":2,"loss":0.5,"time_min_mean_max_s":{"data":[1,2,3]}})"
                    "\n"
                    R"({"kind":"eval","step":4,"set":"a, \"b\"","loss":null})"
                    "\n"
                    R"({"kind":"eval","step":6,"set":null})"
                    "\n{\"half");
  const std::string expected =
      "kind,step,loss,time_min_mean_max_s/data/min,time_min_mean_max_s/data/mean,"
      "time_min_mean_max_s/data/max,set\n"
      "step,2,0.5,1,2,3,\n"
      "eval,4,nan,,,,\"a, \"\"b\"\"\"\n"
      "eval,6,,,,,\n";
  EXPECT_EQ(good(lockstep_utility({"export", scratch.path()})), expected) << "a run folder";
  EXPECT_EQ(good(lockstep_utility({"export", file})), expected) << "a file";
  const std::string csv = scratch.file("metrics.csv");
  EXPECT_EQ(good(lockstep_utility({"export", scratch.path(), "-o", csv})), "");
  EXPECT_EQ(read_file(csv), expected);
  EXPECT_EQ(lockstep_utility({"export", file, "-o", file}).exit_code, 2);
  EXPECT_EQ(lockstep_utility({"export", scratch.file("none")}).exit_code, 2);
}

}  // namespace
}  // namespace lockstep::test
