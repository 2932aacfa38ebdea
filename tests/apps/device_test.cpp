// Runs on simulated devices: the same bits as on the host, and checkpoints that serve both.
#include <gtest/gtest.h>

#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

/// Matrix products, not convolutions: those take other layouts on the host.
std::vector<std::string> mlp(const std::string& dir, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments =
      small_run(dir, {"--set", "model.kind=\"mlp\"", "--set", "checkpoint.every_steps=3", "--set",
                      "checkpoint.keep=0"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> on(const std::string& device, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"--set", "run.device=\"" + device + "\""});
  return more;
}

std::string last_of(const std::string& run) { return run + "/checkpoints/step-00000040.h5"; }

void expect_same_end(const std::string& a, const std::string& b) {
  const auto x = load_checkpoint(last_of(a)), y = load_checkpoint(last_of(b));
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
  good(classify(1, mlp(host, on("cpu"))));
  EXPECT_NE(good(classify(1, mlp(sim, on("sim")))).find("computes on sim:0"), std::string::npos);
  expect_same_end(host, sim);
}

TEST(Device, CheckpointsGoFromDeviceToHostAndBackWithTheSameBits) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), there = scratch.file("there"),
                    back = scratch.file("back");
  good(classify(1, mlp(whole, on("cpu"))));
  const auto from = [](const std::string& run) {
    return std::vector<std::string>{"--resume=" + run + "/checkpoints/step-00000027.h5"};
  };
  good(classify(1, mlp(there, on("sim", from(whole)))));
  expect_same_end(whole, there);
  const std::string sim = scratch.file("sim");
  good(classify(1, mlp(sim, on("sim:2"))));
  good(classify(1, mlp(back, on("cpu", from(sim)))));
  expect_same_end(whole, back);
}

TEST(Device, KilledRunGoesOnToTheSameBits) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), killed = scratch.file("killed");
  good(classify(1, mlp(whole, on("sim"))));
  const Finished death =
      run(app(1, "tests/apps/misbehave", mlp(killed, on("sim"))), {{"MISBEHAVE", "kill 0 23"}});
  ASSERT_NE(death.exit_code, 0) << death.output;
  good(classify(1, mlp(killed, on("sim", {"--resume"}))));
  expect_same_end(whole, killed);
}

TEST(Device, VerbsThatOnlyLookWorkOnADevice) {
  const ScratchFolder scratch;
  for (const std::string verb : {"--dry-run", "--describe", "--check-gradients"}) {
    const std::string said = good(classify(1, mlp(scratch.file("run"), on("sim", {verb}))));
    EXPECT_EQ(said.find("on sim:0") != std::string::npos, verb == "--describe") << said;
  }
}

}  // namespace
}  // namespace lockstep::test
