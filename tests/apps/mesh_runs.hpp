#pragma once
// Runs of small models on meshes of ranks, for the tests of [mesh] and train.zero.
#include <gtest/gtest.h>

#include <apps/same_results.hpp>
#include <apps/small_run.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

using Words = std::vector<std::string>;

inline Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// For runs of which a test looks at the curve only: one epoch, with every step, or two short ones.
inline const Words one_epoch{"train.epochs=1", "log.every_steps=1", "checkpoint.every_steps=0"};
inline const Words short_epochs{"data.train_limit=192", "log.every_steps=2"};

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
  /// A Gpt on this mesh that is stopped or killed by each of the `faults` of misbehave ends on all
  /// ranks, and resumes to the bits of a run that nothing disturbed.
  void expect_same_bits_after(const Words& faults, int ranks, const Words& mesh) {
    good(gpt(ranks, "whole", mesh));
    for (const std::string& fault : faults) {
      const std::string dir = fault.substr(0, 4);
      const Finished ended =
          run(app(ranks, "tests/apps/misbehave", gpt_run(dir, mesh)), {{"MISBEHAVE", fault}});
      ASSERT_NE(ended.exit_code, 0) << ended.output;
      const std::string resumed = good(gpt(ranks, dir, mesh, {"--resume"}));
      EXPECT_NE(resumed.find("resumed from"), std::string::npos) << ended.output << resumed;
      expect_same_state(checkpoint("whole", "24"), checkpoint(dir, "24"));
    }
  }
  /// A Gpt that stops after its first epoch on each of these meshes goes on on the next one with
  /// the curve of the run "one".
  void expect_each_goes_on_on_the_next(const std::vector<std::pair<int, Words>>& meshes,
                                       const Words& more, double tolerance) {
    for (std::size_t i = 0; i < meshes.size(); ++i) {
      const auto& [ranks, mesh] = meshes[i];
      const auto& [ranks_then, mesh_then] = meshes[(i + 1) % meshes.size()];
      Words first = joined(mesh, more);
      first.emplace_back("run.stop_after_epochs=1");
      const std::string dir = "run" + std::to_string(i);
      EXPECT_EQ(gpt(ranks, dir, first).exit_code, 75);
      good(gpt(ranks_then, dir, joined(mesh_then, more), {"--resume"}));
      expect_same_curve("one", dir, tolerance);
    }
  }
  /// A run that ended before its folder "no" was made, with a sentence that has these words.
  void expect_refused(const Finished& run, const std::string& words) const {
    EXPECT_EQ(run.exit_code, 2) << run.output;
    EXPECT_NE(run.output.find(words), std::string::npos) << run.output;
    EXPECT_FALSE(std::filesystem::exists(scratch_.file("no")));
  }
  CheckpointContents checkpoint(const std::string& dir, const std::string& step) const {
    return load_checkpoint(scratch_.file(dir) + "/checkpoints/step-000000" + step + ".h5");
  }

  ScratchFolder scratch_;
  std::string data_;
};

}  // namespace lockstep::test
