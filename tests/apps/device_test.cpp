// Runs on simulated devices: the same bits as on the host, and checkpoints that fit both.
#include <gtest/gtest.h>

#include <regex>

#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

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

std::string checkpoint_of(const std::string& run, int step) {
  const std::string number = std::to_string(step);
  return run + "/checkpoints/step-" + std::string(8 - number.size(), '0') + number + ".h5";
}

nlohmann::json summary_of(const std::string& run) {
  return nlohmann::json::parse(read_file(run + "/summary.json"));
}

void expect_same_outcome(const std::string& a, const std::string& b, int last_step = 40) {
  const auto x = load_checkpoint(checkpoint_of(a, last_step)),
             y = load_checkpoint(checkpoint_of(b, last_step));
  expect_same_state(x, y);
  EXPECT_EQ(x.train.sums, y.train.sums);
  EXPECT_EQ(x.train.metrics, y.train.metrics);
  const auto s = summary_of(a), t = summary_of(b);
  for (const auto& [key, value] : s.items()) {
    const bool is_outcome =
        key == "steps" || key == "completed" || key.ends_with("_loss") || key.starts_with("test_");
    if (!is_outcome) continue;
    EXPECT_EQ(value, t.at(key)) << key;
  }
}

TEST(Device, OneRankOnASimulatedDeviceLeavesTheHostsBits) {
  const ScratchFolder scratch;
  const std::string host = scratch.file("host"), sim = scratch.file("sim");
  good(classify(1, mlp_run(host, on_device("cpu"))));
  EXPECT_NE(good(classify(1, mlp_run(sim, on_device("sim")))).find("computes on sim:0"),
            std::string::npos);
  expect_same_outcome(host, sim);
  EXPECT_FALSE(summary_of(host).contains("peak_device_mib"));
  EXPECT_GT(summary_of(sim).at("peak_device_mib").at(0).get<int>(), 0);
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

/// A run over nccl groups; returns the number of all-reduces of each rank.
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
    for (const int count : over_nccl(ranks, mlp_run(nccl, on_device("sim"))))
      EXPECT_GE(count, ranks > 1 ? 40 : 0);
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

TEST(Device, Tf32ChangesNoBitOffAGpuAndTheLogSaysSo) {
  const ScratchFolder scratch;
  const std::string plain = scratch.file("plain");
  good(classify(1, mlp_run(plain, on_device("cpu"))));
  for (const std::string kind : {"cpu", "sim"}) {
    const std::string with = scratch.file(kind);
    const std::string said =
        good(classify(1, mlp_run(with, on_device(kind, {"--set", "run.tf32=true"}))));
    EXPECT_NE(said.find("run.tf32: no effect on " + (kind == "cpu" ? "host" : kind + ":0")),
              std::string::npos)
        << said;
    expect_same_outcome(plain, with);
  }
}

TEST(Device, GraphsChangeNoBitAndTheLogSaysWhatTheyDo) {
  const ScratchFolder scratch;
  const std::string plain = scratch.file("plain"), graphs = scratch.file("graphs"),
                    host = scratch.file("host"), two = scratch.file("two"),
                    plain_two = scratch.file("plain_two");
  const std::vector<std::string> with{"--set", "run.graphs=true"};
  const auto says = [](const std::string& said, const std::string& what) {
    EXPECT_NE(said.find("run.graphs: " + what), std::string::npos) << said;
  };
  good(classify(1, mlp_run(plain, on_device("cpu"))));
  says(good(classify(1, mlp_run(graphs, on_device("sim", with)))), "step 4 is captured");
  expect_same_outcome(plain, graphs);
  says(good(classify(1, mlp_run(host, on_device("cpu", with)))),
       "steps run without a graph, as the host has no graphs");
  expect_same_outcome(plain, host);
  good(classify(2, mlp_run(plain_two, on_device("cpu"))));
  says(good(classify(2, mlp_run(two, on_device("sim", with)))),
       "steps run without a graph, as 2 ranks exchange gradients");
  expect_same_outcome(plain_two, two);
}

TEST(Device, AResumedRunWithGraphsHasTheSameBits) {
  const ScratchFolder scratch;
  const std::string plain = scratch.file("plain"), graphs = scratch.file("graphs");
  const std::vector<std::string> dropout{"--set", "model.kind=\"convnet\"", "--set",
                                         "train.epochs=1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), dropout.begin(), dropout.end());
    more.insert(more.end(), {"--set", "run.graphs=true"});
    return on_device("sim", more);
  };
  good(classify(1, mlp_run(plain, on_device("sim", dropout))));
  EXPECT_EQ(classify(1, mlp_run(graphs, with({"--set", "run.stop_after_steps=7"}))).exit_code, 75);
  good(classify(1, mlp_run(graphs, with({"--resume"}))));
  const int last = static_cast<int>(summary_of(plain).at("steps").get<double>());
  expect_same_outcome(plain, graphs, last);
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

TEST(Device, RunWhoseRankIsKilledGoesOnOnTheHostToTheSameBits) {
  const ScratchFolder scratch;
  const std::string whole = scratch.file("whole"), killed = scratch.file("killed");
  good(classify(2, mlp_run(whole, on_device("cpu"))));
  const Finished death = run(app(2, "tests/apps/misbehave", mlp_run(killed, on_device("sim"))),
                             {{"MISBEHAVE", "kill 1 23"}});
  ASSERT_NE(death.exit_code, 0) << death.output;
  good(classify(2, mlp_run(killed, on_device("cpu", {"--resume"}))));
  expect_same_outcome(whole, killed);
}

/// Trainings of two epochs of three steps, for each kind of model, on two ranks.
class ModelOnDevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (is("gpt")) {
      std::string numbers;
      for (int i = 0; i < 2000; ++i) numbers += std::to_string(i) + ' ';
      good(run({built("apps/gpt"), "tokens", scratch_.write("text.txt", numbers), "--output",
                scratch_.file("tokens")}));
      set({R"(data={kind="tokens", context=16, train_limit=30, test_limit=10, path=")" +
               scratch_.file("tokens") + "\"}",
           R"(model={kind="gpt", width=16, depth=2, heads=2, residual_dropout=0.1})"});
    } else if (is("unet")) {
      good(run({built("apps/heat_data"), scratch_.file("fields.h5"), "--step", "2", "--points", "8",
                "--train", "30", "--test", "10"}));
      set({R"(data={kind="hdf5", train_features="train/state", train_targets="train/next", )"
           R"(test_features="test/state", test_targets="test/next", normalise_targets=true, path=")" +
               scratch_.file("fields.h5") + "\"}",
           R"(model={kind="unet", channels=16, levels=1, norm="batch"})",
           "ddp.sync_batch_norm=true"});
    } else {
      set({R"(data={kind="synthetic", synthetic_samples=30, synthetic_test_samples=10, )"
           R"(synthetic_image_size=16})",
           std::string("model.kind=\"") + GetParam() + '"'});
    }
    if (is("transformer")) set({"model.width=16", "model.heads=2", "model.depth=2"});
    if (is("convnet")) set({"train.accumulate=2", R"(averaging.kind="ema")"});
    if (is("resnet18")) set({"data.synthetic_image_size=8"});
    set({is("resnet18") ? "optimizer.momentum=0.9" : R"(optimizer={kind="adam", clip_norm=0.5})",
         "run.layout=\"plain\"", "train.epochs=2", "train.batch_size=10",
         "checkpoint.every_steps=2", "checkpoint.keep=0"});
  }

  [[nodiscard]] std::string train(const std::string& device, std::vector<std::string> more = {}) {
    const std::string dir = scratch_.file("run" + std::to_string(++runs_));
    std::vector<std::string> arguments;
    if (is("gpt")) arguments.emplace_back("train");
    arguments.push_back(scratch_.write("empty.toml", ""));
    arguments.insert(arguments.end(), settings_.begin(), settings_.end());
    more = on_device(device, std::move(more));
    more.insert(more.end(), {"--set", "run.dir=\"" + dir + '"'});
    arguments.insert(arguments.end(), more.begin(), more.end());
    good(run(app(2,
                 is("gpt")    ? "apps/gpt"
                 : is("unet") ? "apps/regress"
                              : "apps/classify",
                 arguments)));
    return dir;
  }

 private:
  [[nodiscard]] static bool is(std::string_view model) { return model == GetParam(); }
  void set(const std::vector<std::string>& settings) {
    for (const std::string& setting : settings)
      settings_.insert(settings_.end(), {"--set", setting});
  }

  ScratchFolder scratch_;
  std::vector<std::string> settings_;
  int runs_ = 0;
};

TEST_P(ModelOnDevice, GoesFromHostToDeviceAndBackWithTheSameBits) {
  const std::string host = train("cpu");
  const std::string there = train("sim", {"--resume=" + checkpoint_of(host, 2)});
  expect_same_outcome(host, there, 6);
  const std::string back = train("cpu", {"--resume=" + checkpoint_of(there, 4)});
  expect_same_outcome(host, back, 6);
}

INSTANTIATE_TEST_SUITE_P(Models, ModelOnDevice,
                         testing::Values("convnet", "resnet18", "transformer", "gpt", "unet"),
                         [](const auto& test) { return std::string(test.param); });

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
