// heat_data and regress as users run them.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <support/process.hpp>
#include <thread>

namespace lockstep::test {
namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

class Regress : public testing::Test {
 protected:
  void SetUp() override { make_data("heat.h5", {}); }

  void make_data(const std::string& name, const Arguments& more) {
    Arguments command{built("apps/heat_data"), scratch_.file(name)};
    command.insert(command.end(), more.begin(), more.end());
    const Finished finished = run(command);
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
  }

  /// inputs/heat.toml with this test's data.
  Finished regress(int ranks, const Arguments& more, const std::string& dir = "run") {
    Arguments arguments{source("inputs/heat.toml"), "--set",
                        "data.path=\"" + scratch_.file("heat.h5") + "\"", "--set",
                        "run.dir=\"" + scratch_.file(dir) + "\""};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(app(ranks, "apps/regress", arguments), {}, 120);
  }

  Json summary(const std::string& dir = "run") {
    return Json::parse(read_file(scratch_.file(dir + "/summary.json")));
  }

  ScratchFolder scratch_;
  const Arguments scalar_{"--set", "data.train_targets=\"train/peak\"", "--set",
                          "data.test_targets=\"test/peak\""};
};

TEST_F(Regress, OnASimulatedDeviceEndsWithTheHostsFigures) {
  for (const std::string device : {"cpu", "sim"}) {
    const Finished finished =
        regress(1, {"--set", "run.device=\"" + device + "\"", "--set", "train.epochs=2"}, device);
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
  }
  for (const char* figure : {"train_loss", "test_loss", "test_r2", "test_max_error", "test_mae"})
    EXPECT_EQ(summary("sim").at(figure), summary("cpu").at(figure)) << figure;
}

TEST_F(Regress, FitsTheFieldOnOneToThreeRanks) {
  for (const int ranks : {1, 2, 3}) {
    const std::string dir = "run" + std::to_string(ranks);
    // The whole deck once: half of its 60 epochs reach these figures, too.
    const Finished finished =
        regress(ranks, ranks == 2 ? Arguments{} : Arguments{"--set", "train.epochs=30"}, dir);
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_TRUE(finished.says("test r2 0.99")) << finished.output;
    EXPECT_GE(summary(dir).at("test_r2").get<double>(), 0.99) << ranks << " ranks";
    EXPECT_LE(summary(dir).at("test_max_error").get<double>(), 0.3) << ranks << " ranks";
    const auto figure = [&](const char* key) { return summary(dir).at(key).get<double>(); };
    EXPECT_LE(figure("test_mae"), std::sqrt(figure("test_loss")));
    EXPECT_LE(std::sqrt(figure("test_loss")), figure("test_max_error"));
    EXPECT_LE(figure("test_relative_l2"), 0.1);
  }
}

TEST_F(Regress, FitsASingleValue) {
  const Finished finished = regress(2, scalar_);
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_GE(summary().at("test_r2").get<double>(), 0.99);
}

TEST_F(Regress, FitsByEveryLoss) {
  for (const std::string kind : {"mae", "huber", "smooth_l1", "gaussian_nll"}) {
    Arguments keys = scalar_;
    keys.insert(keys.end(), {"--set", "loss.kind=\"" + kind + "\"", "--set", "train.epochs=15"});
    if (kind == "huber" || kind == "smooth_l1")
      keys.insert(keys.end(), {"--set", "loss.delta=0.5"});
    const Finished finished = regress(2, keys, kind);
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_GE(summary(kind).at("test_r2").get<double>(), 0.98) << kind;
  }
}

TEST_F(Regress, EvaluationGivesTheSameBitsOnAnyNumberOfRanks) {
  std::map<int, std::vector<Json>> results;
  for (const int ranks : {1, 2, 3, 4}) {
    const Finished finished = regress(ranks, {"--set", "optimizer.lr=1e-30", "--set",
                                              "train.epochs=1", "--set", "eval.batch_size=17"});
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    for (const char* key :
         {"test_loss", "test_r2", "test_max_error", "test_mae", "test_relative_l2"})
      results[ranks].push_back(summary().at(key));
  }
  for (const auto& [ranks, result] : results) EXPECT_EQ(result, results[1]) << ranks << " ranks";
}

TEST_F(Regress, StreamedAndCompressedDataGiveTheBitsOfDataInMemory) {
  const Arguments two_epochs{"--set", "train.epochs=2", "--set", "data.shuffle_window=256"};
  ASSERT_EQ(regress(2, two_epochs).exit_code, 0);
  const Json in_memory = summary();
  std::filesystem::remove(scratch_.file("heat.h5"));
  make_data("heat.h5", {"--chunk", "100"});
  Arguments streamed = two_epochs;
  streamed.insert(streamed.end(), {"--set", "data.stream=true", "--set", "data.cache_mib=1"});
  const Finished finished = regress(2, streamed);
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  for (const char* key : {"train_loss", "test_loss", "test_r2", "test_max_error"})
    EXPECT_EQ(summary().at(key), in_memory.at(key)) << key;
}

TEST_F(Regress, DryRunLooksAtTheDataAndTrainsNothing) {
  const Finished good = regress(2, {"--dry-run"});
  EXPECT_EQ(good.exit_code, 0) << good.output;
  EXPECT_TRUE(good.says("2000 training and 500 test samples of shape [4]")) << good.output;
  const Finished bad = regress(2, {"--dry-run", "--set", "data.train_targets=\"train/feild\""});
  EXPECT_EQ(bad.exit_code, 2) << bad.output;
  EXPECT_TRUE(bad.says("Did you mean train/field?")) << bad.output;
}

TEST_F(Regress, WrongDataAreExitTwoAndOneSentence) {
  const std::vector<std::pair<Arguments, std::string>> cases{
      {{"--set", "data.path=\"" + scratch_.file("no.h5") + "\""}, "no.h5 is missing"},
      {{"--set", "data.path=\"" + source("inputs/heat.toml") + "\""}, "is not an HDF5 file"},
      {{"--set", "data.test_targets=\"test/peak\""}, "do not match"},
      {{"--set", "data.train_targets=\"test/field\""}, "2000 samples in train/parameters"},
      {{"--set", "data.mean=[1.0, 2.0]"}, "have 4 channels, but data.mean has 2 numbers"},
      {{"--set", "data.augment_flip=true"}, "need images"},
      {{"--set", "data.kind=\"synthetic\""}, "classes, not values"},
      {{"--set", "model.kind=\"convnet\""}, "takes images"}};
  for (const auto& [arguments, sentence] : cases) {
    const Finished finished = regress(2, arguments);
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says(sentence)) << sentence << "\n" << finished.output;
  }
}

TEST_F(Regress, ClassifySaysThatValuesAreNoClasses) {
  const Finished finished = run(
      app(1, "apps/classify",
          {source("inputs/heat.toml"), "--set", "data.path=\"" + scratch_.file("heat.h5") + "\"",
           "--set", "run.dir=\"" + scratch_.file("run") + "\""}));
  EXPECT_EQ(finished.exit_code, 2) << finished.output;
  EXPECT_TRUE(finished.says("classes must be integers")) << finished.output;
}

TEST(HeatData, SameOptionsGiveTheSameFileAndBadOnesASentence) {
  const ScratchFolder scratch;
  const auto make = [&](const std::string& file, const Arguments& more) {
    Arguments command{built("apps/heat_data"), file, "--train", "20", "--test", "5"};
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
  };
  ASSERT_EQ(make(scratch.file("a.h5"), {}).exit_code, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // the clock's second is no option
  ASSERT_EQ(make(scratch.file("b.h5"), {}).exit_code, 0);
  ASSERT_EQ(make(scratch.file("c.h5"), {"--seed", "2"}).exit_code, 0);
  EXPECT_EQ(read_file(scratch.file("a.h5")), read_file(scratch.file("b.h5")));
  EXPECT_NE(read_file(scratch.file("a.h5")), read_file(scratch.file("c.h5")));
  EXPECT_EQ(make(scratch.file("d.h5"), {"--points", "1"}).exit_code, 2);
  EXPECT_EQ(run({built("apps/heat_data")}).exit_code, 2);
  EXPECT_EQ(run({built("apps/heat_data"), "--help"}).exit_code, 0);
  const Finished no_folder = make("/proc/heat.h5", {});
  EXPECT_EQ(no_folder.exit_code, 1) << no_folder.output;
  EXPECT_TRUE(no_folder.says("/proc/heat.h5")) << no_folder.output;
}

TEST(HeatData, FileThatGrowsTooLargeIsASentenceAndLeavesNothing) {
  const ScratchFolder scratch;
  const Finished finished = run({"bash", "-c", "ulimit -f 8; exec \"$@\"", "bash",
                                 built("apps/heat_data"), scratch.file("heat.h5")});
  EXPECT_EQ(finished.exit_code, 1) << finished.output;
  EXPECT_TRUE(finished.says("File too large")) << finished.output;
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(HeatData, ReplacesNothing) {
  const ScratchFolder scratch;
  const auto special = [&](const char* name, mode_t kind) {
    EXPECT_EQ(mknod(scratch.file(name).c_str(), kind | 0600U, makedev(1, 3)), 0) << name;
  };
  scratch.write("file", "mine");
  special("pipe", S_IFIFO);
  if (geteuid() == 0) special("device", S_IFCHR);  // a null device
  std::filesystem::create_directory(scratch.file("folder"));
  std::filesystem::create_symlink("nowhere", scratch.file("link"));
  std::set<std::string> before, after;
  const auto look = [&](std::set<std::string>& into) {
    for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
      into.insert(entry.path().filename().string() + " " +
                  std::to_string(static_cast<int>(entry.symlink_status().type())));
    }
  };
  look(before);
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    const std::string path = entry.path();
    const Finished finished = run({built("apps/heat_data"), path, "--train", "5", "--test", "5"});
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says(path + " exists already and is not overwritten")) << finished.output;
  }
  look(after);
  EXPECT_EQ(after, before);
  EXPECT_EQ(read_file(scratch.file("file")), "mine");
}

}  // namespace
}  // namespace lockstep::test
