// [mesh] in decks: ranks that share out the model train as one rank does, and checkpoints of each
// mesh are read by each other.
#include <gtest/gtest.h>

#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

using Words = std::vector<std::string>;

class Mesh : public ::testing::Test {
 protected:
  Words settings(const std::string& dir, const Words& more) const {
    Words all;
    for (const std::string& set :
         Words{"run.dir=\"" + scratch_.file(dir) + "\"", "log.every_steps=4",
               "checkpoint.every_steps=6", "checkpoint.keep=0"}) {
      all.insert(all.end(), {"--set", set});
    }
    for (const std::string& set : more) all.insert(all.end(), {"--set", set});
    return all;
  }
  /// A Gpt on characters: 24 steps.
  Finished gpt(int ranks, const std::string& dir, const Words& more, const Words& flags = {}) {
    Words arguments = gpt_run(dir, more, flags);
    arguments.insert(arguments.begin(), "train");
    return run(app(ranks, "apps/gpt", arguments));
  }
  Words gpt_run(const std::string& dir, const Words& more, const Words& flags = {}) {
    if (data_.empty()) {
      data_ = scratch_.file("tokens");
      std::string text;
      for (int i = 0; i < 1200; ++i) text += "After " + std::to_string(i * i % 7) + " comes.\n";
      good(run(app(1, "apps/gpt",
                   {"tokens", scratch_.write("text.txt", text), "--output", data_, "--tokenizer",
                    "characters", "--shard-tokens", "9000"})));
    }
    Words arguments{source("inputs/gpt_bible.toml")};
    Words all{"data.path=\"" + data_ + "\"",
              "data.context=32",
              "data.train_limit=384",
              "data.test_limit=40",
              "model.width=32",
              "model.heads=4",
              "model.depth=2",
              "train.epochs=2",
              "schedule.warmup=4",
              "model.residual_dropout=0.1",
              "optimizer.clip_norm=1"};
    all.insert(all.end(), more.begin(), more.end());
    const Words rest = settings(dir, all);
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return arguments;
  }
  Finished mlp(int ranks, const std::string& dir, const Words& more) {
    Words all{"model.kind=\"mlp\"", "model.hidden=[64,48]"};
    all.insert(all.end(), more.begin(), more.end());
    return classify(ranks, small_run(scratch_.file(dir), settings(dir, all)));
  }
  /// The losses, learning rates and gradient norms of a run, as far as there are any.
  std::vector<double> curve(const std::string& dir) const {
    std::vector<double> found;
    for (const auto& row : results(scratch_.file(dir))) {
      for (const char* figure : {"loss", "lr", "grad_norm"})
        if (row.contains(figure) && row.at(figure).is_number()) found.push_back(row.at(figure));
    }
    return found;
  }
  void expect_same_curve(const std::string& one, const std::string& other, double tolerance) const {
    const auto a = curve(one), b = curve(other);
    ASSERT_GT(a.size(), 12U);
    ASSERT_EQ(a.size(), b.size()) << other;
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(b[i], a[i], tolerance * std::abs(a[i])) << other << ", figure " << i;
  }
  CheckpointContents checkpoint(const std::string& dir, const std::string& step) const {
    return load_checkpoint(scratch_.file(dir) + "/checkpoints/step-000000" + step + ".h5");
  }

  ScratchFolder scratch_;
  std::string data_;
};

TEST_F(Mesh, TensorParallelGptHasTheCurveOfOneRankAlsoWithDataParallelism) {
  const std::string alone = good(gpt(1, "one", {}));
  const std::string output = good(gpt(2, "tp", {"mesh.tp=2"}));
  const auto parameters = [](const std::string& text) {
    return text.substr(text.find("model of "), text.find(" parameters") - text.find("model of "));
  };
  EXPECT_EQ(parameters(output), parameters(alone));
  expect_same_curve("one", "tp", 1e-4);
  good(gpt(4, "both", {"mesh.tp=2"}));
  expect_same_curve("one", "both", 1e-4);
  const auto whole = checkpoint("one", "24"), divided = checkpoint("both", "24");
  ASSERT_EQ(whole.model.size(), divided.model.size());
  for (const auto& [name, tensor, placement] : whole.model)
    EXPECT_EQ(divided.model.at(name).shape(), tensor.shape()) << name;
}

TEST_F(Mesh, TensorParallelMlpHasTheCurveOfOneRank) {
  good(mlp(1, "one", {}));
  good(mlp(2, "tp", {"mesh.tp=2"}));
  expect_same_curve("one", "tp", 1e-4);
  good(mlp(4, "both", {"mesh.dp=2", "mesh.tp=2"}));
  expect_same_curve("one", "both", 1e-4);
}

TEST_F(Mesh, TensorParallelGptInFp16SkipsTheStepsOfOneRank) {
  // The first steps overflow; the scale grows again.
  const Words fp16{"train.precision=\"fp16\"", "train.loss_scale=1e9",
                   "train.loss_scale_growth_steps=4"};
  const auto skipped = [](const std::string& output) {
    int count = 0;
    for (auto at = output.find(" is skipped"); at != std::string::npos; ++count)
      at = output.find(" is skipped", at + 1);
    return count;
  };
  const int alone = skipped(good(gpt(1, "one", fp16)));
  EXPECT_GT(alone, 3);
  Words divided = fp16;
  divided.emplace_back("mesh.tp=2");
  EXPECT_EQ(skipped(good(gpt(2, "tp", divided))), alone);
  expect_same_curve("one", "tp", 5e-3);
  EXPECT_EQ(skipped(good(gpt(4, "both", divided))), alone);
  expect_same_curve("one", "both", 5e-3);
}

TEST_F(Mesh, ARunBeginsWithWholeWeightsOnAnyMesh) {
  good(gpt(1, "first", {"train.epochs=1"}));
  const Words from{"train.init_from=\"" + scratch_.file("first") + "\"", "train.seed=5"};
  const auto with = [&](const Words& more) {
    Words all = from;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto taken = [](const std::string& output) {
    const auto begin = output.find("took ");
    return output.substr(begin, output.find('\n', begin) - begin);
  };
  const std::string alone = taken(good(gpt(1, "one", from)));
  EXPECT_EQ(alone.find("left as initialised"), std::string::npos) << alone;
  EXPECT_EQ(taken(good(gpt(2, "tp", with({"mesh.tp=2"})))), alone);
  expect_same_curve("one", "tp", 1e-4);
  EXPECT_EQ(taken(good(gpt(4, "all", with({"mesh.tp=2", "mesh.cp=2"})))), alone);
  expect_same_curve("one", "all", 1e-4);
}

TEST_F(Mesh, ContextParallelGptHasTheCurveOfOneRankAlsoWithTheOtherDimensions) {
  good(gpt(1, "one", {}));
  good(gpt(2, "cp", {"mesh.cp=2"}));
  expect_same_curve("one", "cp", 1e-4);
  good(gpt(4, "dp_cp", {"mesh.cp=2"}));
  expect_same_curve("one", "dp_cp", 1e-4);
  good(gpt(4, "cp_tp", {"mesh.cp=2", "mesh.tp=2"}));
  expect_same_curve("one", "cp_tp", 1e-4);
}

TEST_F(Mesh, ARunGoesOnOnAnotherMeshAndWithTheSameBitsOnItsOwn) {
  good(gpt(1, "one", {}));
  good(gpt(2, "whole", {"mesh.tp=2"}));
  const Words first{"mesh.tp=2", "run.stop_after_epochs=1"};
  EXPECT_EQ(gpt(2, "same", first).exit_code, 75);
  EXPECT_NE(good(gpt(2, "same", {"mesh.tp=2"}, {"--resume"})).find("resumed from"),
            std::string::npos);
  expect_same_state(checkpoint("whole", "24"), checkpoint("same", "24"));

  EXPECT_EQ(gpt(2, "other", first).exit_code, 75);
  good(gpt(4, "other", {"mesh.tp=4"}, {"--resume"}));
  expect_same_curve("one", "other", 1e-4);
  EXPECT_EQ(gpt(2, "undivided", first).exit_code, 75);
  good(gpt(1, "undivided", {}, {"--resume"}));
  expect_same_curve("one", "undivided", 1e-4);
  EXPECT_EQ(gpt(1, "divided", {"run.stop_after_epochs=1"}).exit_code, 75);
  good(gpt(2, "divided", {"mesh.tp=2"}, {"--resume"}));
  expect_same_curve("one", "divided", 1e-4);
}

TEST_F(Mesh, OneRankKilledOrAskedToStopEndsAllAndTheRunGoesOnWithTheSameBits) {
  const Words mesh{"mesh.tp=2"};
  good(gpt(4, "whole", mesh));
  for (const std::string fault : {"usr1 3 10", "kill 3 15"}) {
    const std::string dir = fault.substr(0, 4);
    const Finished ended =
        run(app(4, "tests/apps/misbehave", gpt_run(dir, mesh)), {{"MISBEHAVE", fault}});
    ASSERT_NE(ended.exit_code, 0) << ended.output;
    EXPECT_NE(good(gpt(4, dir, mesh, {"--resume"})).find("resumed from"), std::string::npos);
    expect_same_state(checkpoint("whole", "24"), checkpoint(dir, "24"));
  }
}

TEST_F(Mesh, AveragedWeightsOfDividedModelsAreThoseOfOneRank) {
  const Words average{"averaging.kind=\"ema\"", "averaging.decay=0.5"};
  good(gpt(1, "one", average));
  Words divided = average;
  divided.emplace_back("mesh.tp=2");
  good(gpt(2, "tp", divided));
  expect_same_curve("one", "tp", 1e-4);
}

TEST_F(Mesh, RefusesWhatDoesNotFitBeforeARunFolderIsMade) {
  const auto refused = [&](const Finished& run, const std::string& words) {
    EXPECT_EQ(run.exit_code, 2) << run.output;
    EXPECT_NE(run.output.find(words), std::string::npos) << run.output;
  };
  refused(gpt(2, "no", {"mesh.tp=3"}), "the sizes do not fit 2 ranks");
  refused(gpt(3, "no", {"mesh.tp=3", "model.heads=2"}), "fewer than the 3 ranks");
  refused(gpt(2, "no", {"mesh.tp=2", "optimizer.kind=\"lamb\""}), "trust ratios");
  refused(gpt(2, "no", {"mesh.tp=2", "ddp.comm_hook=\"power_sgd\""}), "ddp.comm_hook");
  refused(gpt(2, "no", {"mesh.cp=2", "data.context=30"}), "must be a multiple of 4");
  refused(gpt(2, "no", {"mesh.cp=2", "train.reduction=\"invariant\""}), "invariant");
  refused(mlp(2, "no", {"mesh.cp=2"}), "mesh.cp = 1");
  refused(mlp(2, "no", {"mesh.tp=2", "model.hidden=[]"}), "at least");
  refused(classify(2, small_run(scratch_.file("no"), {"--set", "mesh.tp=2"})), "ready plan");
  EXPECT_FALSE(std::filesystem::exists(scratch_.file("no")));
}

}  // namespace
}  // namespace lockstep::test
