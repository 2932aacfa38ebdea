// Field-to-field regression: heat_data --step, the U-Nets of inputs/, and their predictions.
#include <gtest/gtest.h>

#include <apps/small_run.hpp>
#include <cmath>
#include <filesystem>
#include <lockstep/data/files/hdf5_array.hpp>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;
using Floats = std::vector<float>;

Floats numbers(const std::string& file, const std::string& name) {
  const Hdf5Array array(file, name);
  Floats values(static_cast<std::size_t>(array.shape().numel()));
  array.read(0, array.rows(), values);
  return values;
}

/// sqrt(sum (y - t)^2 / sum t^2)
double relative_l2(const Floats& y, const Floats& t) {
  EXPECT_EQ(y.size(), t.size());
  double squares = 0, all = 0;
  for (std::size_t i = 0; i < t.size(); ++i) {
    squares += (static_cast<double>(y[i]) - t[i]) * (static_cast<double>(y[i]) - t[i]);
    all += static_cast<double>(t[i]) * t[i];
  }
  return std::sqrt(squares / all);
}

/// The first of two channels.
Floats first_channel(const Floats& states, std::size_t points) {
  Floats fields;
  for (auto at = states.begin(); at != states.end(); at += static_cast<std::ptrdiff_t>(2 * points))
    fields.insert(fields.end(), at, at + static_cast<std::ptrdiff_t>(points));
  return fields;
}

class Fields : public testing::Test {
 protected:
  void make_data(const std::string& name, const Arguments& more) {
    Arguments command{built("apps/heat_data"), scratch_.file(name)};
    command.insert(command.end(), more.begin(), more.end());
    const Finished finished = run(command);
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
  }
  Finished regress(int ranks, const std::string& deck, const std::string& data,
                   const Arguments& more = {}) {
    Arguments arguments{source("inputs/" + deck), "--set",
                        "data.path=\"" + scratch_.file(data) + "\"", "--set",
                        "run.dir=\"" + scratch_.file("run") + "\""};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(app(ranks, "apps/regress", arguments), {}, 120);
  }
  /// The figure of the run of `data`, which its predictions reproduce; `persistence` is the figure
  /// of an unchanged field.
  void expect_learnt(const std::string& data, std::size_t points, double persistence,
                     double bound) {
    const double judged = Json::parse(read_file(scratch_.file("run/summary.json")))
                              .at("test_relative_l2")
                              .get<double>();
    const Finished predicted =
        run(app(2, "apps/lockstep",
                {"predict", scratch_.file("run"), "--input", scratch_.file(data) + ":test/state",
                 "--output", scratch_.file("y.h5")}));
    ASSERT_EQ(predicted.exit_code, 0) << predicted.output;
    const auto next = numbers(scratch_.file(data), "test/next");
    EXPECT_EQ(Hdf5Array(scratch_.file("y.h5"), "predictions").shape(),
              Hdf5Array(scratch_.file(data), "test/next").shape());
    EXPECT_NEAR(relative_l2(numbers(scratch_.file("y.h5"), "predictions"), next), judged, 1e-4);
    const auto state = numbers(scratch_.file(data), "test/state");
    const double stays = relative_l2(first_channel(state, points), next);
    EXPECT_GT(stays, persistence);
    EXPECT_LT(judged, bound);
  }

  ScratchFolder scratch_;
};

TEST_F(Fields, AUNetLearnsTheNextFieldOfAMaterialThatVaries) {
  make_data("steps.h5", {"--step", "2", "--train", "1000", "--test", "200"});
  const Finished finished = regress(2, "heat_step.toml", "steps.h5", {"--set", "train.epochs=10"});
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  expect_learnt("steps.h5", 256, 0.25, 0.06);
}

TEST_F(Fields, AUNetOfVolumesLearnsTheNextFieldInACube) {
  make_data("steps_3d.h5", {"--step", "3", "--points", "8", "--train", "600", "--test", "100"});
  const Finished finished =
      regress(2, "heat_step_3d.toml", "steps_3d.h5", {"--set", "train.epochs=10"});
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  expect_learnt("steps_3d.h5", 512, 0.3, 0.12);
}

TEST_F(Fields, StepsFollowTheHeatEquation) {
  make_data("steps.h5", {"--step", "2", "--train", "1", "--test", "5", "--time", "1e-5"});
  const auto state = numbers(scratch_.file("steps.h5"), "test/state"),
             next = numbers(scratch_.file("steps.h5"), "test/next");
  // u' = u + t div(k grad u), for a time so short that higher orders vanish.
  const auto at = [&](std::size_t sample, std::size_t channel, std::ptrdiff_t y, std::ptrdiff_t x) {
    if (y < 0 || x < 0 || y > 15 || x > 15) return 0.0;
    return static_cast<double>(
        state[(sample * 2 + channel) * 256 + static_cast<std::size_t>(y * 16 + x)]);
  };
  for (std::size_t s = 0; s < 5; ++s) {
    for (std::ptrdiff_t y = 0; y < 16; ++y) {
      for (std::ptrdiff_t x = 0; x < 16; ++x) {
        double flow = 0;
        for (const auto& [dy, dx] : {std::pair{0, 1}, {0, -1}, {1, 0}, {-1, 0}}) {
          const double k = at(s, 1, y, x), beyond = at(s, 1, y + dy, x + dx);
          flow += (k + (beyond > 0 ? beyond : k)) / 2 * (at(s, 0, y + dy, x + dx) - at(s, 0, y, x));
        }
        EXPECT_NEAR(next[s * 256 + static_cast<std::size_t>(y * 16 + x)],
                    at(s, 0, y, x) + 1e-5 * 17 * 17 * flow, 1e-6);
      }
    }
  }
}

TEST_F(Fields, OfATimeThatIsNoneAreNotWritten) {
  for (const std::string time : {"nan", "-1", "1e9"}) {
    const Finished refused =
        run({built("apps/heat_data"), scratch_.file("steps.h5"), "--time=" + time});
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    EXPECT_TRUE(refused.says(time + " is not a number from 0 to 1000")) << refused.output;
    EXPECT_FALSE(std::filesystem::exists(scratch_.file("steps.h5")));
  }
}

TEST_F(Fields, UncertainAndPlainNetworksOfEveryNormTrain) {
  make_data("steps.h5", {"--step", "2", "--train", "200", "--test", "40"});
  for (const Arguments& more : {Arguments{"--set", "model.norm=\"batch\""},
                                {"--set", "model.norm=\"layer\""},
                                {"--set", "model.levels=0"},
                                {"--set", "loss.kind=\"gaussian_nll\""}}) {
    Arguments all = more;
    all.insert(all.end(), {"--set", "train.epochs=4"});
    const Finished finished = regress(2, "heat_step.toml", "steps.h5", all);
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_LT(Json::parse(read_file(scratch_.file("run/summary.json")))
                  .at("test_relative_l2")
                  .get<double>(),
              0.7)
        << more[1];
  }
  ASSERT_EQ(run(app(1, "apps/lockstep",
                    {"predict", scratch_.file("run"), "--input",
                     scratch_.file("steps.h5") + ":test/state", "--output", scratch_.file("y.h5")}))
                .exit_code,
            0);
  EXPECT_EQ(Hdf5Array(scratch_.file("y.h5"), "predictions_std").shape(), Shape({40, 1, 16, 16}));
}

TEST_F(Fields, WhatDoesNotFitIsExitTwoAndASentence) {
  make_data("steps.h5", {"--step", "2", "--train", "20", "--test", "5"});
  make_data("heat.h5", {"--train", "20", "--test", "5"});
  const std::vector<std::pair<Arguments, std::string>> cases{
      {{"--set", "model.levels=5"}, "16 is not a multiple of 32. Use fewer levels."},
      {{"--set", "data.train_targets=\"train/state\"", "--set", "data.test_targets=\"test/next\""},
       "do not match"},
      {{"--set", "model.hidden_dropout=0.1"},
       "model.hidden_dropout is a key of model.kind = \"mlp\", but model.kind is \"unet\""},
      {{"--set", "data.path=\"" + scratch_.file("heat.h5") + "\"", "--set",
        "data.train_features=\"train/field\"", "--set", "data.test_features=\"test/field\"",
        "--set", "data.train_targets=\"train/peak\"", "--set", "data.test_targets=\"test/peak\""},
       "model unet"}};
  for (const auto& [arguments, sentence] : cases) {
    const Finished finished = regress(2, "heat_step.toml", "steps.h5", arguments);
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says(sentence)) << sentence << "\n" << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
