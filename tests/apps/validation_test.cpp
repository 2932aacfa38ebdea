// Runs judged by held-back samples, early stopping, and runs without a test set.
#include <gtest/gtest.h>

#include <algorithm>
#include <apps/small_run.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

class Validation : public testing::Test {
 protected:
  /// small_run in `dir` with these keys set.
  Finished train(int ranks, const std::string& dir, const Arguments& keys,
                 const Arguments& more = {}) {
    Arguments arguments = small_run(scratch_.file(dir), more);
    for (const auto& key : keys) {
      arguments.emplace_back("--set");
      arguments.push_back(key);
    }
    return classify(ranks, arguments);
  }
  Json summary(const std::string& dir) {
    return Json::parse(read_file(scratch_.file(dir + "/summary.json")));
  }
  /// The "eval" rows of a set, in their order.
  std::vector<Json> evaluations(const std::string& dir, const std::string& set) {
    std::vector<Json> found;
    std::istringstream lines(read_file(scratch_.file(dir + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const Json row = Json::parse(line);
      if (row.at("kind") == "eval" && row.at("set") == set) found.push_back(row);
    }
    return found;
  }
  /// The learning rate of each epoch.
  std::vector<double> rates(const std::string& dir) {
    std::vector<double> found;
    std::istringstream lines(read_file(scratch_.file(dir + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const Json row = Json::parse(line);
      if (row.at("kind") == "epoch") found.push_back(row.at("lr"));
    }
    return found;
  }

  ScratchFolder scratch_;
};

TEST_F(Validation, EpochsAreJudgedByItAndTheTestSetIsLookedAtOnce) {
  const Finished finished = train(2, "run", {"data.validation_fraction=0.2"});
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("456 training, 114 validation and 130 test samples"))
      << finished.output;
  EXPECT_TRUE(finished.says("validation accuracy")) << finished.output;
  EXPECT_TRUE(finished.says("after epoch 4  test loss")) << finished.output;
  EXPECT_EQ(evaluations("run", "validation").size(), 4U);
  const auto tests = evaluations("run", "test");
  ASSERT_EQ(tests.size(), 1U);
  EXPECT_EQ(tests[0].at("epoch"), 4);
  EXPECT_EQ(summary("run").at("test_loss"), tests[0].at("loss"));
  EXPECT_EQ(summary("run").at("validation_accuracy"),
            evaluations("run", "validation").back().at("accuracy"));
  ASSERT_EQ(train(2, "run", {"data.validation_fraction=0.2"}, {"--resume"}).exit_code, 0);
  EXPECT_EQ(evaluations("run", "test").size(), 1U) << "nothing was left to do";
}

TEST_F(Validation, TheSameSamplesAreHeldBackOnAnyNumberOfRanksAndForAnySeed) {
  Json loss;
  for (const int ranks : {1, 2, 3}) {
    const std::string dir = std::to_string(ranks);
    ASSERT_EQ(train(ranks, dir,
                    {"data.validation_fraction=0.3", "optimizer.lr=1e-30", "train.epochs=1",
                     "eval.batch_size=17"})
                  .exit_code,
              0);
    if (ranks == 1) loss = summary(dir).at("validation_loss");
    EXPECT_EQ(summary(dir).at("validation_loss"), loss) << ranks;
  }
}

TEST_F(Validation, ARunNeedsNoTestSet) {
  const Finished unjudged = train(2, "none", {"data.test_set=false"});
  ASSERT_EQ(unjudged.exit_code, 0) << unjudged.output;
  EXPECT_TRUE(unjudged.says("570 training samples;")) << unjudged.output;
  EXPECT_TRUE(summary("none").at("test_loss").is_null());
  EXPECT_FALSE(summary("none").contains("test_accuracy"));
  EXPECT_TRUE(evaluations("none", "test").empty());
  const Finished judged = train(1, "some", {"data.test_set=false", "data.validation_fraction=0.1"});
  ASSERT_EQ(judged.exit_code, 0) << judged.output;
  EXPECT_TRUE(judged.says("513 training and 57 validation samples")) << judged.output;
  EXPECT_TRUE(summary("some").contains("validation_accuracy"));
  EXPECT_EQ(lockstep_utility({"evaluate", scratch_.file("some")}).exit_code, 2);
}

TEST_F(Validation, ATrainingThatGetsNoBetterEndsAndIsComplete) {
  const Arguments keys{"data.validation_fraction=0.2", "train.epochs=50", "optimizer.lr=1e-30",
                       "train.early_stop_patience=3", "train.early_stop_min_delta=1e-3"};
  const Finished finished = train(2, "run", keys);
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("early stopping: validation loss has not improved on"))
      << finished.output;
  EXPECT_EQ(summary("run").at("epochs"), 4) << "the first, and three that were no better";
  EXPECT_EQ(summary("run").at("completed"), true);
  EXPECT_EQ(summary("run").at("early_stopping"), true);
  EXPECT_EQ(evaluations("run", "test").size(), 1U);
  EXPECT_EQ(load_checkpoint(*newest_good_checkpoint(scratch_.file("run/checkpoints"))).train.epoch,
            4);
  const Json before = summary("run");
  const Finished resumed = train(1, "run", keys, {"--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_TRUE(resumed.says("nothing to train: the run was complete after epoch 4 of 50"))
      << resumed.output;
  EXPECT_EQ(summary("run").at("epochs"), 4) << "it is over";
  for (const char* figure : {"samples_per_s", "first_step_s"})
    EXPECT_EQ(summary("run").at(figure), before.at(figure)) << figure;
}

TEST_F(Validation, TheBestEpochIsKeptThoughNoSaveWasDue) {
  ASSERT_EQ(train(2, "run",
                  {"data.validation_fraction=0.2", "data.synthetic_noise=0.85", "optimizer.lr=0.3",
                   "train.epochs=12", "checkpoint.best=\"loss\"", "checkpoint.every_epochs=100"})
                .exit_code,
            0);
  const auto found = evaluations("run", "validation");
  const auto least = std::ranges::min_element(
      found, {}, [](const Json& row) { return row.at("loss").get<double>(); });
  ASSERT_LT(least - found.begin(), std::ssize(found) - 1) << "the last epoch is saved in any case";
  const auto best = load_checkpoint(best_checkpoint(scratch_.file("run/checkpoints")));
  EXPECT_EQ(best.train.epoch, least->at("epoch"));
}

TEST_F(Validation, AResumedRunEndsInTheEpochOfOneThatWasNotInterrupted) {
  const Arguments keys{"data.validation_fraction=0.2", "optimizer.lr=1e-30",
                       "train.early_stop_patience=5", "train.early_stop_min_delta=1e-3"};
  Arguments first = keys, second = keys;
  first.emplace_back("train.epochs=3");
  second.emplace_back("train.epochs=50");
  ASSERT_EQ(train(1, "run", first).exit_code, 0);
  EXPECT_EQ(summary("run").at("early_stopping"), false);
  fs::remove(scratch_.file("run/metrics.jsonl"));  // a checkpoint holds the whole state
  const Finished resumed = train(2, "run", second, {"--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(summary("run").at("epochs"), 6);
}

TEST_F(Validation, AnotherMetricIsNotComparedWithTheBestOfTheOneBefore) {
  const Arguments keys{"data.validation_fraction=0.2", "optimizer.lr=1e-5",
                       "train.early_stop_patience=5",  "train.early_stop_min_delta=0.5",
                       "schedule.kind=\"plateau\"",    "schedule.patience=1",
                       "schedule.factor=0.5",          "schedule.threshold=0.9"};
  Arguments first = keys, second = keys;
  first.emplace_back("train.epochs=3");
  second.insert(second.end(), {"train.epochs=50", "train.early_stop_metric=\"accuracy\"",
                               "schedule.metric=\"accuracy\""});
  ASSERT_EQ(train(1, "run", first).exit_code, 0);
  const Finished resumed = train(2, "run", second, {"--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(summary("run").at("epochs"), 9) << "the first that it judged, and five no better";
  // By the loss the third epoch was one too many; by the accuracy the sixth and the eighth.
  const std::vector<double> expected{1e-5, 1e-5, 1e-5, 5e-6, 5e-6, 5e-6, 2.5e-6, 2.5e-6, 1.25e-6};
  EXPECT_EQ(rates("run"), expected);
}

TEST_F(Validation, ARateThatWaitsForAPlateauFallsAndGoesOnWhereItStood) {
  // Only a fall of 90 % would be an improvement, so the first epoch's loss stays the best.
  const Arguments keys{"data.validation_fraction=0.2", "optimizer.lr=1e-4",
                       "schedule.kind=\"plateau\"",    "schedule.patience=1",
                       "schedule.factor=0.5",          "schedule.threshold=0.9"};
  const std::vector<double> expected{1e-4, 1e-4, 1e-4, 5e-5, 5e-5, 2.5e-5, 2.5e-5, 1.25e-5};
  Arguments first = keys, second = keys;
  first.emplace_back("train.epochs=2");
  second.emplace_back("train.epochs=8");
  ASSERT_EQ(train(1, "run", first).exit_code, 0);
  const Finished resumed = train(2, "run", second, {"--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(rates("run"), expected);
  EXPECT_EQ(train(1, "unknown", {"schedule.kind=\"plateau\"", "schedule.metric=\"r2\""}).exit_code,
            2);
}

TEST_F(Validation, BestIsTheLeastLossAndTheGreatestAccuracy) {
  for (const std::string metric : {"loss", "accuracy"}) {
    ASSERT_EQ(train(1, metric,
                    {"data.validation_fraction=0.2", "checkpoint.best=\"" + metric + "\"",
                     "optimizer.lr=0.3", "train.epochs=6"})
                  .exit_code,
              0);
    const auto rows = evaluations(metric, "validation");
    ASSERT_EQ(rows.size(), 6U);
    std::size_t best = 0;
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const double value = rows[i].at(metric), before = rows[best].at(metric);
      if (metric == "loss" ? value < before : value > before) best = i;
    }
    EXPECT_EQ(load_checkpoint(best_checkpoint(scratch_.file(metric + "/checkpoints"))).train.step,
              rows[best].at("step"))
        << metric;
  }
}

TEST_F(Validation, FiguresThatThereAreNotAreRefusedWithThoseThatThereAre) {
  const std::vector<std::pair<Arguments, std::string>> cases{
      {{"checkpoint.best=\"acuracy\""}, "Choose one of: loss, accuracy."},
      {{"train.early_stop_patience=2", "train.early_stop_metric=\"r2\""},
       "Choose one of: loss, accuracy."},
      {{"train.early_stop_patience=2", "data.test_set=false"},
       "neither a validation nor a test set"},
      {{"data.validation_fraction=0.0001"}, "leaves 0 to validate"}};
  for (const auto& [keys, sentence] : cases) {
    for (const char* verb : {"", "--dry-run"}) {
      const Finished finished =
          train(2, "bad", keys, std::string(verb).empty() ? Arguments{} : Arguments{verb});
      EXPECT_EQ(finished.exit_code, 2) << finished.output;
      EXPECT_TRUE(finished.says(sentence)) << sentence << "\n" << finished.output;
      EXPECT_FALSE(fs::exists(scratch_.file("bad")));
    }
  }
}

}  // namespace
}  // namespace lockstep::test
