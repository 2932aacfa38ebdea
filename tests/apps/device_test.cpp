// Runs on simulated devices: the same bits as on the host, and checkpoints that serve both.
#include <gtest/gtest.h>

#include <regex>

#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

/// Matrix products, not convolutions: those take other layouts on the host.
std::vector<std::string> mlp_run(const std::string& dir, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments =
      small_run(dir, {"--set", "model.kind=\"mlp\"", "--set", "checkpoint.every_steps=3", "--set",
                      "checkpoint.keep=0"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> on_device(const std::string& device, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"--set", "run.device=\"" + device + "\""});
  return more;
}

std::string end_of_run(const std::string& run) { return run + "/checkpoints/step-00000040.h5"; }

void expect_same_outcome(const std::string& a, const std::string& b) {
  const auto x = load_checkpoint(end_of_run(a)), y = load_checkpoint(end_of_run(b));
  expect_same_state(x, y);
  EXPECT_EQ(x.train.sums, y.train.sums);
  EXPECT_EQ(x.train.metrics, y.train.metrics);
  const auto s = nlohmann::json::parse(read_file(a + "/summary.json")),
             t = nlohmann::json::parse(read_file(b + "/summary.json"));
  for (const char* key : {"train_loss", "test_loss", "test_accuracy", "steps", "completed"})
    EXPECT_EQ(s.at(key), t.at(key)) << key;
}

TEST(Device, OneRankOnASimulatedDeviceLeavesTheHostsBits) {
  const ScratchFolder scratch;
  const std::string host = scratch.file("host"), sim = scratch.file("sim");
  good(classify(1, mlp_run(host, on_device("cpu"))));
  EXPECT_NE(good(classify(1, mlp_run(sim, on_device("sim")))).find("computes on sim:0"),
            std::string::npos);
  expect_same_outcome(host, sim);
}

TEST(Device, TwoRanksEachOnADeviceLeaveTheHostsBits) {
  const ScratchFolder scratch;
  const std::string host = scratch.file("host"), sim = scratch.file("sim"),
                    threads = scratch.file("threads");
  good(classify(2, mlp_run(host, on_device("cpu"))));
  EXPECT_NE(good(classify(2, mlp_run(sim, on_device("sim")))).find("its own device: sim:0, sim:1"),
            std::string::npos);
  expect_same_outcome(host, sim);
  good(classify(1, mlp_run(threads, on_device("sim", {"--ranks-as-threads", "2"}))));
  expect_same_outcome(host, threads);
}

/// A run over nccl groups; how many all-reduces it came to on each rank.
std::vector<int> over_nccl(int ranks, const std::vector<std::string>& arguments) {
  const std::string said = good(run(app(ranks, "tests/apps/classify_over_nccl", arguments)));
  std::vector<int> counts;
  const std::regex line("ncclAllReduce: ([0-9]+), wrong uses: 0");
  for (std::sregex_iterator it(said.begin(), said.end(), line), end; it != end; ++it)
    counts.push_back(std::stoi((*it)[1]));
  EXPECT_EQ(static_cast<int>(counts.size()), ranks) << said;
  return counts;
}

TEST(Device, OverNcclRanksLeaveTheBitsOfTheHost) {
  for (const int ranks : {1, 2, 4}) {
    const ScratchFolder scratch;
    const std::string host = scratch.file("host"), nccl = scratch.file("nccl"),
                      late = scratch.file("late");
    good(classify(ranks, mlp_run(host, on_device("cpu"))));
    for (const int count : over_nccl(ranks, mlp_run(nccl, on_device("sim")))) EXPECT_GE(count, 40);
    expect_same_outcome(host, nccl);
    over_nccl(ranks, mlp_run(late, on_device("sim", {"--set", "comm.contract=\"late\""})));
    expect_same_outcome(host, late);
  }
}

TEST(Device, RanksShareOneWhereTheDeckAllowsIt) {
  const ScratchFolder scratch;
  const std::string host = scratch.file("host"), sim = scratch.file("sim");
  good(classify(2, mlp_run(host, on_device("cpu"))));
  const std::string said =
      good(classify(1, mlp_run(sim, on_device("sim:1", {"--ranks-as-threads", "2", "--set",
                                                        "run.device_sharing=true"}))));
  EXPECT_NE(said.find("ranks share devices (run.device_sharing): ranks 0, 1 of"), std::string::npos)
      << said;
  expect_same_outcome(host, sim);
}

TEST(Device, CheckpointsGoFromDeviceToHostAndBackWithTheSameBits) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), there = scratch.file("there"),
                    back = scratch.file("back");
  good(classify(1, mlp_run(whole, on_device("cpu"))));
  const auto from = [](const std::string& run) {
    return std::vector<std::string>{"--resume=" + run + "/checkpoints/step-00000027.h5"};
  };
  good(classify(1, mlp_run(there, on_device("sim", from(whole)))));
  expect_same_outcome(whole, there);
  const std::string sim = scratch.file("sim");
  good(classify(1, mlp_run(sim, on_device("sim:2"))));
  good(classify(1, mlp_run(back, on_device("cpu", from(sim)))));
  expect_same_outcome(whole, back);
}

TEST(Device, KilledRunGoesOnToTheSameBits) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), killed = scratch.file("killed");
  good(classify(1, mlp_run(whole, on_device("sim"))));
  const Finished death = run(app(1, "tests/apps/misbehave", mlp_run(killed, on_device("sim"))),
                             {{"MISBEHAVE", "kill 0 23"}});
  ASSERT_NE(death.exit_code, 0) << death.output;
  good(classify(1, mlp_run(killed, on_device("sim", {"--resume"}))));
  expect_same_outcome(whole, killed);
}

TEST(Device, VerbsThatOnlyLookWorkOnADevice) {
  const ScratchFolder scratch;
  for (const std::string verb : {"--dry-run", "--describe", "--check-gradients"}) {
    const std::string said =
        good(classify(1, mlp_run(scratch.file("run"), on_device("sim", {verb}))));
    EXPECT_EQ(said.find("on sim:0") != std::string::npos, verb == "--describe") << said;
  }
}

}  // namespace
}  // namespace lockstep::test
