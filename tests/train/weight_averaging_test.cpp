// Weights averaged over steps in a whole run: contents of evaluations, checkpoints and predictions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/data/dataset.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/predict/predictor.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/parts/weight_averaging.hpp>
#include <lockstep/train/report/console.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/evaluation.hpp>
#include <lockstep/train/trainer.hpp>
#include <map>
#include <support/message_of.hpp>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

using Overrides = std::vector<std::string>;
using Values = std::map<std::string, std::vector<double>>;

constexpr const char* text = R"(
  data = {kind = "synthetic", synthetic_samples = 120, synthetic_test_samples = 50, synthetic_image_size = 8}
  model = {kind = "mlp", hidden = [16], norm = "batch"}
  train = {epochs = 3, batch_size = 20}
  optimizer = {lr = 0.1}
  checkpoint = {every_steps = 1, keep = 0, async = false}
)";

Values values_of(const StateDict& state) {
  Values values;
  for (const auto& entry : state)
    values[entry.name] = entry.tensor.to(DType::f64).to_vector<double>();
  return values;
}

class WeightAveragingInRuns : public testing::Test {
 protected:
  /// Trains to the end in `folder`; returns the last evaluation.
  Evaluation train(const std::string& folder, const Overrides& overrides, int ranks = 1,
                   const std::string& from = "") {
    std::vector<Evaluation> found(static_cast<std::size_t>(ranks));
    Console console(0);
    std::vector<std::unique_ptr<Deck>> decks;
    for (int r = 0; r < ranks; ++r)
      decks.push_back(std::make_unique<Deck>(Deck::parse(text, "test", overrides)));
    std::vector<RunPlan> plans;
    std::vector<std::unique_ptr<Classification>> tasks;
    for (auto& deck : decks) {
      plans.push_back(read_run_plan(*deck));
      tasks.push_back(std::make_unique<Classification>(*deck));
    }
    run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
      set_math_threads(1);
      const auto r = static_cast<std::size_t>(group.rank());
      Trainer trainer(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), *tasks[r],
                      plans[r]);
      if (!from.empty()) trainer.restore(load_checkpoint(from));
      const auto run_folder = RunFolder::open(group, {.dir = scratch_.file(folder)}, false);
      MetricsFile metrics;
      if (r == 0) metrics = MetricsFile(run_folder.file("metrics.jsonl"));
      const Outcome outcome = trainer.run(run_folder, metrics, console, decks[r]->resolved());
      found[r] = *outcome.test;
    });
    for (const Evaluation& rank : found) EXPECT_EQ(rank.loss, found[0].loss);
    return found[0];
  }
  [[nodiscard]] std::string file(const std::string& folder, std::int64_t step) const {
    return checkpoint_path(scratch_.file(folder) + "/checkpoints", step).string();
  }
  /// The trained weights in the checkpoint of `step`.
  [[nodiscard]] Values trained(const std::string& folder, std::int64_t step) const {
    return values_of(split_trained(load_checkpoint(file(folder, step)).optimizer).first);
  }
  [[nodiscard]] Values used(const std::string& folder, std::int64_t step) const {
    return values_of(load_checkpoint(file(folder, step)).model);
  }

  test::ScratchFolder scratch_;
};

TEST_F(WeightAveragingInRuns, EmaIsThatOfTheTrainedWeightsAndLeavesTheTrainingAlone) {
  train("ema", {"averaging.kind='ema'", "averaging.decay=0.75", "averaging.start_epoch=1"});
  train("plain", {});
  Values expected = used("plain", 7);  // the first step of the second epoch
  EXPECT_EQ(used("ema", 6), used("plain", 6)) << "before the first update";
  for (std::int64_t step = 7; step <= 18; ++step) {
    const Values now = used("plain", step);
    EXPECT_EQ(trained("ema", step), now);
    const Values averages = used("ema", step);
    for (auto& [name, values] : expected) {
      const bool buffer = name.find("running") != std::string::npos || name.find("num_") == 6;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double value = now.at(name)[i];
        values[i] = step == 7 || buffer ? value : 0.75 * values[i] + 0.25 * value;
        ASSERT_NEAR(averages.at(name)[i], values[i], 1e-6) << name << " after step " << step;
      }
    }
  }
}

TEST_F(WeightAveragingInRuns, SwaIsTheMeanOverEpochsWithStatisticsOfItsOwn) {
  for (const int ranks : {1, 2}) {
    const std::string dir = fmt::format("swa{}", ranks);
    // One batch per epoch: the mean of all samples is that of the ranks' shares.
    train(dir, {"averaging.kind='swa'", "averaging.start_epoch=1", "train.batch_size=120"}, ranks);
    const Values second = trained(dir, 2), third = trained(dir, 3), averages = used(dir, 3);
    for (const auto& [name, values] : averages) {
      if (name.starts_with("norm1.running") || name.starts_with("norm1.num")) continue;
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], (second.at(name)[i] + third.at(name)[i]) / 2, 1e-6) << name;
    }
    EXPECT_EQ(averages.at("norm1.num_batches_tracked").front(), ranks);
    // The averaged first layer's output for the whole training set.
    Deck deck = Deck::parse(text, "test");
    const Classification task(deck);
    const Dataset& data = *task.data().train;
    Batch batch(data, data.size());
    std::vector<std::int64_t> all(static_cast<std::size_t>(data.size()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    data.load(all, batch);
    const auto x = batch.inputs().to(DType::f64).to_vector<double>();
    const auto &weight = averages.at("fc1.weight"), &bias = averages.at("fc1.bias");
    const std::size_t features = x.size() / all.size();
    for (std::size_t f = 0; f < 16; ++f) {
      double mean = 0;
      for (std::size_t s = 0; s < all.size(); ++s) {
        for (std::size_t i = 0; i < features; ++i)
          mean += x[s * features + i] * weight[f * features + i];
      }
      mean = mean / static_cast<double>(all.size()) + bias[f];
      EXPECT_NEAR(averages.at("norm1.running_mean")[f], mean, 1e-5) << f;
    }
    EXPECT_NE(averages.at("norm1.running_mean"), third.at("norm1.running_mean"));
  }
}

// Saved in the middle of the first averaged epoch, before there are statistics of its own.
TEST_F(WeightAveragingInRuns, UntilTheEpochsEndTheAveragesHaveTheTrainedStatistics) {
  const Overrides keys{"averaging.kind='ema'", "averaging.update_bn=true",
                       "averaging.every_steps=2"};
  train("ema", keys, 2);
  for (const char* name :
       {"norm1.running_mean", "norm1.running_var", "norm1.num_batches_tracked"}) {
    EXPECT_EQ(used("ema", 2).at(name), trained("ema", 2).at(name)) << name;
    EXPECT_EQ(used("ema", 3).at(name), trained("ema", 2).at(name)) << name;
  }
  EXPECT_NE(used("ema", 2).at("norm1.running_mean"), used("ema", 6).at("norm1.running_mean"));
}

TEST_F(WeightAveragingInRuns, EvaluationsAndPredictionsAreOfTheAverages) {
  const Evaluation found = train("swa", {"averaging.kind='swa'", "averaging.every_steps=2"}, 2);
  Deck deck = Deck::parse(text, "test");
  const Classification task(deck);
  const Predictor predictor(scratch_.file("swa"));
  EXPECT_EQ(values_of(predictor.model().state_dict()), used("swa", 18));
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    const std::shared_ptr<ProcessGroup> all(&group, [](ProcessGroup*) {});
    Evaluator evaluator(make_rank_groups(all, MeshOptions()), task, task.data().test, 1000);
    nn::Module& model = predictor.model();
    EXPECT_EQ(evaluator(model).loss, found.loss);
    nn::Module& frozen = *model.children().front().second;
    model.train();
    frozen.eval();
    EXPECT_EQ(evaluator(model).loss, found.loss);
    EXPECT_TRUE(model.is_training());
    EXPECT_FALSE(frozen.is_training());
  });
}

TEST_F(WeightAveragingInRuns, InvariantReductionGivesTheSameBitsOnAnyNumberOfRanks) {
  const Overrides keys{"averaging.kind='swa'", "train.reduction='invariant'", "train.shards=4"};
  train("one", keys, 1);
  train("two", keys, 2);
  EXPECT_EQ(used("one", 18), used("two", 18));
}

TEST_F(WeightAveragingInRuns, ResumedWithoutAveragingTheTrainingGoesOn) {
  train("ema", {"averaging.kind='ema'"});
  train("without", {}, 1, file("ema", 9));
  EXPECT_EQ(used("without", 18), trained("ema", 18));
}

TEST_F(WeightAveragingInRuns, WhatDoesNotFitIsASentence) {
  const auto sentence = [](const Overrides& overrides) {
    Deck deck = Deck::parse(text, "test", overrides);
    const RunPlan plan = read_run_plan(deck);
    const Classification task(deck);
    return test::message_of<InputError>([&] { Trainer::check(task, plan); });
  };
  EXPECT_NE(sentence({"averaging.kind='swa'", "averaging.start_epoch=3"}).find("leaves nothing"),
            std::string::npos);
  EXPECT_NE(sentence({"averaging.kind='ema'", "ddp.comm_hook='post_local_sgd'"})
                .find("each rank has its own"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::train
