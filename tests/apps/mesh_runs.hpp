#pragma once
// Runs of small models on meshes of ranks, for the tests of [mesh] and train.zero.
#include <gtest/gtest.h>

#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::test {

using Words = std::vector<std::string>;

class MeshRuns : public ::testing::Test {
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

}  // namespace lockstep::test
