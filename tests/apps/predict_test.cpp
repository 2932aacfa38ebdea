// A trained network from the shell: lockstep predict and lockstep evaluate.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include <apps/small_run.hpp>
#include <lockstep/data/files/hdf5_array.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

std::vector<float> floats(const std::string& file, const std::string& name) {
  const Hdf5Array array(file, name);
  std::vector<float> values(static_cast<std::size_t>(array.shape().numel()));
  array.read(0, array.rows(), values);
  return values;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

/// Of a file or its temporary one.
bool holds_beginning_with(const std::string& path) {
  const fs::path begin = path;
  return std::ranges::any_of(fs::directory_iterator(begin.parent_path()), [&](const auto& entry) {
    return entry.path().filename().string().starts_with(begin.filename().string());
  });
}

class Predict : public testing::Test {
 protected:
  /// A short run of regress in `dir`.
  void fit(const std::string& dir, const Arguments& more = {}) {
    const std::string heat = scratch_.file("heat.h5");
    if (!fs::exists(heat)) {
      ASSERT_EQ(run({built("apps/heat_data"), heat, "--train", "1500", "--test", "90"}).exit_code,
                0);
    }
    Arguments arguments{source("inputs/heat.toml"),
                        "--set",
                        "data.path=\"" + heat + "\"",
                        "--set",
                        "run.dir=\"" + scratch_.file(dir) + "\"",
                        "--set",
                        "train.epochs=2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished finished = run(app(1, "apps/regress", arguments));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
  }

  Finished lockstep(int ranks, const Arguments& arguments) {
    return run(app(ranks, "apps/lockstep", arguments));
  }
  Json summary(const std::string& dir) {
    return Json::parse(read_file(scratch_.file(dir + "/summary.json")));
  }
  /// The result of `lockstep evaluate`.
  Json evaluate(int ranks, const Arguments& arguments) {
    Arguments all{"evaluate"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.push_back("--json");
    const Finished finished = lockstep(ranks, all);
    EXPECT_EQ(finished.exit_code, 0) << finished.output;
    return finished.exit_code == 0 ? Json::parse(finished.output) : Json();
  }

  ScratchFolder scratch_;
};

TEST_F(Predict, AnyNumberOfRanksWritesTheSameBytesInTheOrderOfTheInputs) {
  fit("run");  // enough samples for each of 3 ranks, with fewer on the last
  const std::string input = scratch_.file("heat.h5") + ":train/parameters";
  std::string alone;
  for (const int ranks : {1, 2, 3}) {
    const std::string output = scratch_.file(std::to_string(ranks) + ".h5");
    const Finished finished = lockstep(
        ranks, {"predict", scratch_.file("run"), "--input", input, "--output", output + ":a/b"});
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_TRUE(finished.says("1500 samples")) << finished.output;
    if (ranks == 1) alone = read_file(output);
    EXPECT_TRUE(read_file(output) == alone) << ranks << " ranks";
  }
  const auto field = floats(scratch_.file("3.h5"), "a/b");
  EXPECT_LT(largest_difference(field, floats(scratch_.file("heat.h5"), "train/field")), 1.0);
  EXPECT_EQ(Hdf5Array(scratch_.file("3.h5"), "a/b").shape(), Shape({1500, 16, 16}));
}

TEST_F(Predict, PredictionsAreThoseThatTheRunWasJudgedBy) {
  fit("run");
  ASSERT_EQ(lockstep(2, {"predict", scratch_.file("run"), "--input",
                         scratch_.file("heat.h5") + ":test/parameters", "--output",
                         scratch_.file("y.h5")})
                .exit_code,
            0);
  const double error = largest_difference(floats(scratch_.file("y.h5"), "predictions"),
                                          floats(scratch_.file("heat.h5"), "test/field"));
  EXPECT_NEAR(error, summary("run").at("test_max_error").get<double>(), 1e-5);
}

/// y = sin(6 x) + s(x) e, s(x) = 0.05 + 0.4 x, with normally distributed e.
std::string noisy_lines(int lines, unsigned seed) {
  std::mt19937 random(seed);
  std::string text = "x,y\n";
  const auto uniform = [&] { return (static_cast<double>(random()) + 0.5) / 4294967296.0; };
  for (int i = 0; i < lines; ++i) {
    const double x = uniform(),
                 e = std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::acos(-1) * uniform());
    text += std::to_string(x) + "," + std::to_string(std::sin(6 * x) + (0.05 + 0.4 * x) * e) + "\n";
  }
  return text;
}

TEST_F(Predict, ModelsThatTellHowSureTheyAreFindTheNoiseOfTheData) {
  scratch_.write("train.csv", noisy_lines(4000, 1));
  scratch_.write("test.csv", noisy_lines(500, 2));
  const std::string deck = scratch_.write(
      "deck.toml", "[data]\nkind = \"csv\"\npath = \"" + scratch_.file("train.csv") +
                       "\"\ntest_path = \"" + scratch_.file("test.csv") +
                       "\"\ntarget_columns = \"y\"\nnormalise_targets = true\n"
                       "[model]\nkind = \"mlp\"\nhidden = [32, 32]\n"
                       "[loss]\nkind = \"gaussian_nll\"\n[run]\ndir = \"" +
                       scratch_.file("run") +
                       "\"\n"
                       "[optimizer]\nkind = \"adam\"\nlr = 0.005\n[schedule]\nkind = \"cosine\"\n"
                       "t_max = 40\n[train]\nepochs = 40\nbatch_size = 50\n");
  const Finished trained = run(app(2, "apps/regress", {deck}));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const Json judged = evaluate(2, {scratch_.file("run"), "--data", scratch_.file("test.csv")});
  EXPECT_NEAR(judged.at("loss").get<double>(), summary("run").at("test_loss").get<double>(), 1e-6);
  scratch_.write("new.csv", "x\n0.1\n0.3\n0.5\n0.7\n0.9\n");
  ASSERT_EQ(lockstep(1, {"predict", scratch_.file("run"), "--input", scratch_.file("new.csv"),
                         "--output", scratch_.file("y.h5")})
                .exit_code,
            0);
  const auto mean = floats(scratch_.file("y.h5"), "predictions"),
             std = floats(scratch_.file("y.h5"), "predictions_std");
  ASSERT_EQ(mean.size(), 5U);
  ASSERT_EQ(std.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    const double x = 0.1 + 0.2 * static_cast<double>(i), noise = 0.05 + 0.4 * x;
    EXPECT_NEAR(mean[i], std::sin(6 * x), 0.3 * noise) << x;
    EXPECT_NEAR(std[i], noise, 0.25 * noise) << x;
  }
}

TEST_F(Predict, WeightsOfOtherProgramsPredictOnceADeckNamesTheModel) {
  fit("run");
  const std::string deck = scratch_.file("run/deck.toml"),
                    input = scratch_.file("heat.h5") + ":test/parameters";
  const auto predict = [&](const std::string& checkpoint, const std::string& output) {
    const Finished finished =
        lockstep(1, {"predict", checkpoint, "--input", input, "--output", scratch_.file(output)});
    EXPECT_EQ(finished.exit_code, 0) << finished.output;
    return floats(scratch_.file(output), "predictions");
  };
  const auto expected = predict(scratch_.file("run"), "of_run.h5");
  std::string newest = lockstep(1, {"checkpoint", "latest", scratch_.file("run")}).output;
  newest.pop_back();
  for (const std::string name : {"w.safetensors", "w.h5"}) {
    ASSERT_EQ(lockstep(1, {"checkpoint", "export", newest, "-o", scratch_.file(name)}).exit_code,
              0);
    const Finished imported = lockstep(1, {"checkpoint", "import", scratch_.file(name), "-o",
                                           scratch_.file("imported.h5"), "--deck", deck});
    ASSERT_EQ(imported.exit_code, 0) << imported.output;
    EXPECT_EQ(predict(scratch_.file("imported.h5"), "of_import.h5"), expected) << name;
  }
  const Finished refused =
      lockstep(1, {"checkpoint", "import", scratch_.file("w.h5"), "-o", scratch_.file("no.h5"),
                   "--deck", source("inputs/synthetic.toml")});
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_TRUE(refused.says("does not fit the model in")) << refused.output;
  EXPECT_TRUE(refused.says("train.init_from")) << refused.output;
  EXPECT_FALSE(fs::exists(scratch_.file("no.h5")));
}

TEST_F(Predict, EvaluateReproducesTheRunsFiguresOnTheSameData) {
  fit("run");
  const Json found = summary("run");
  for (const int ranks : {1, 3}) {
    for (const Arguments& data : {Arguments{}, Arguments{"--data", scratch_.file("heat.h5")}}) {
      Arguments arguments{scratch_.file("run")};
      arguments.insert(arguments.end(), data.begin(), data.end());
      const Json again = evaluate(ranks, arguments);
      EXPECT_EQ(again.at("samples"), 90);
      EXPECT_EQ(again.at("loss"), found.at("test_loss"));
      EXPECT_EQ(again.at("r2"), found.at("test_r2"));
      EXPECT_EQ(again.at("max_error"), found.at("test_max_error"));
    }
  }
}

TEST_F(Predict, NothingButTheCheckpointIsNeeded) {
  fit("run", {"--set", "data.normalise_targets=true"});
  const Json found = summary("run");
  fs::rename(scratch_.file("heat.h5"), scratch_.file("other.h5"));
  fs::copy(scratch_.file("run/checkpoints/step-00000060.h5"), scratch_.file("model.h5"));
  fs::remove_all(scratch_.file("run"));
  const Json again = evaluate(1, {scratch_.file("model.h5"), "--data", scratch_.file("other.h5")});
  EXPECT_EQ(again.at("max_error"), found.at("test_max_error"));
  ASSERT_EQ(lockstep(1, {"predict", scratch_.file("model.h5"), "--input",
                         scratch_.file("other.h5") + ":test/parameters", "--output",
                         scratch_.file("y.h5")})
                .exit_code,
            0);
  const double error = largest_difference(floats(scratch_.file("y.h5"), "predictions"),
                                          floats(scratch_.file("other.h5"), "test/field"));
  EXPECT_NEAR(error, again.at("max_error").get<double>(), 1e-5);
}

TEST_F(Predict, EvaluateComputesInThePrecisionOfTheRun) {
  ASSERT_EQ(
      classify(1, small_run(scratch_.file("run"), {"--set", "train.precision=\"bf16\""})).exit_code,
      0);
  const Json again = evaluate(1, {scratch_.file("run")});
  EXPECT_EQ(again.at("loss"), summary("run").at("test_loss"));
}

/// The output of numpy.save for rows of four floats.
std::string npy_of(const std::vector<float>& samples) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                       std::to_string(samples.size() / 4) + ", 4), }";
  header.resize(117, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\0\x76\0", 10);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof(float));
  return bytes;
}

TEST_F(Predict, SamplesOfManyRoundsAreAllPredicted) {
  fit("run");
  constexpr std::size_t count = 10'000, period = 7;
  std::vector<float> samples;
  for (std::size_t i = 0; i < 4 * count; ++i)
    samples.push_back(0.1F * static_cast<float>(i % (4 * period)));
  const std::string table = scratch_.write("samples.npy", npy_of(samples));
  for (const int ranks : {1, 3}) {
    const std::string output = scratch_.file(std::to_string(ranks) + ".h5");
    const Finished finished =
        lockstep(ranks, {"predict", scratch_.file("run"), "--input", table, "--output", output});
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    const auto found = floats(output, "predictions");
    ASSERT_EQ(found.size(), count * 256);
    std::size_t others = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      others += std::abs(found[i] - found[i % (256 * period)]) < 1e-4F ? 0 : 1;
    EXPECT_EQ(others, 0U);
  }
}

TEST_F(Predict, ASampleThatIsNotFiniteIsNamedAndHasNoPrediction) {
  fit("run");
  std::vector<float> samples(8, 0.5F);
  samples[6] = std::nanf("");
  const std::string table = scratch_.write("samples.npy", npy_of(samples));
  const Finished refused = lockstep(
      2, {"predict", scratch_.file("run"), "--input", table, "--output", scratch_.file("y.h5")});
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_TRUE(refused.says("sample 1")) << refused.output;
  EXPECT_FALSE(holds_beginning_with(scratch_.file("y.h5")));
}

TEST_F(Predict, ClassifiersAreEvaluatedOnAnyNumberOfRanks) {
  ASSERT_EQ(classify(2, small_run(scratch_.file("run"))).exit_code, 0);
  for (const int ranks : {1, 2}) {
    const Json again = evaluate(ranks, {scratch_.file("run")});
    EXPECT_EQ(again.at("loss"), summary("run").at("test_loss"));
    EXPECT_EQ(again.at("accuracy"), summary("run").at("test_accuracy"));
    const Json& rows = again.at("confusion");
    ASSERT_EQ(rows.size(), 10U);
    double right = 0, all = 0;
    for (std::size_t is = 0; is < 10; ++is) {
      for (std::size_t p = 0; p < 10; ++p) all += rows[is][p].get<double>();
      right += rows[is][is].get<double>();
    }
    EXPECT_EQ(all, 130);
    EXPECT_EQ(right / all, again.at("accuracy").get<double>());
  }
  const Finished said = lockstep(1, {"evaluate", scratch_.file("run")});
  EXPECT_TRUE(said.says("class  recall  precision  samples")) << said.output;
}

TEST_F(Predict, ImpossibleRequestsAreASentenceAndLeaveNothing) {
  fit("run");
  ASSERT_EQ(classify(1, small_run(scratch_.file("images"))).exit_code, 0);
  const std::string heat = scratch_.file("heat.h5"), output = scratch_.file("y.h5");
  struct Case {
    Arguments arguments;
    int exit_code;
    std::string sentence;
  };
  const std::vector<Case> cases{
      {{"predict", "run", "--input", heat, "--output", output}, 2, "has no data set parameters"},
      {{"predict", "run", "--input", heat + ":test/peak", "--output", output},
       2,
       "has samples [1], but the model takes parameters [4]"},
      {{"predict", "run", "--input", heat + ":test/parameters", "--output", heat},
       2,
       "as the input"},
      {{"predict", "none", "--input", heat, "--output", output}, 4, "none"},
      {{"predict", "run", "--input", heat + ":test/parameters", "--output", "/proc/y.h5"},
       1,
       "/proc/y.h5"},
      {{"evaluate", "run", "--data", "none.h5"}, 2, "none.h5"},
      {{"evaluate", "run", "--set", "data.test_targets=\"test/peak\""}, 2, "the model maps"},
      {{"predict", "run", "--input", heat + ":test/parameters", "--output", output + ".csv"},
       2,
       "predictions are written as HDF5"},
      {{"evaluate", "run", "--set", "data.normalise_targets=true", "--set",
        "data.target_mean=[1.0]", "--set", "data.target_std=[2.0]"},
       2,
       "outputs are normalised, but they are as they are"},
      {{"evaluate", "run", "--set", "loss.kind=\"gaussian_nll\""},
       2,
       "does not output an uncertainty"},
      {{"evaluate", "images", "--data", heat}, 2, "generated without a file"}};
  for (const auto& [arguments, exit_code, sentence] : cases) {
    for (const int ranks : {1, 2}) {
      Arguments here{arguments[0], scratch_.file(arguments[1])};
      here.insert(here.end(), arguments.begin() + 2, arguments.end());
      const Finished finished = lockstep(ranks, here);
      EXPECT_EQ(finished.exit_code, exit_code) << finished.output;
      EXPECT_TRUE(finished.says(sentence)) << sentence << "\n" << finished.output;
      EXPECT_FALSE(holds_beginning_with(output));
    }
  }
}

TEST_F(Predict, NoToolReplacesItsInputUnderAnyName) {
  fit("run");
  std::string file = good(lockstep(1, {"checkpoint", "latest", scratch_.file("run")}));
  file.pop_back();
  const std::string name = fs::path(file).filename(), linked = scratch_.file("linked.h5"),
                    dotted = scratch_.file("run/checkpoints/./../checkpoints/") + name;
  fs::create_hard_link(file, linked);
  const std::string input = scratch_.file("heat.h5") + ":test/parameters", bytes = read_file(file);
  for (const std::string& output : {file, dotted, linked}) {
    for (const Arguments& arguments :
         {Arguments{"checkpoint", "export", file, "-o", output},
          Arguments{"checkpoint", "import", file, "-o", output},
          Arguments{"predict", file, "--input", input, "--output", output},
          Arguments{"predict", scratch_.file("run"), "--input", input, "--output", output}}) {
      const Finished refused = lockstep(1, arguments);
      EXPECT_EQ(refused.exit_code, 2) << refused.output;
      EXPECT_TRUE(refused.says("is the same file as the input " + file)) << refused.output;
      EXPECT_TRUE(read_file(file) == bytes) << arguments[0] << " " << arguments[1];
    }
  }
}

}  // namespace
}  // namespace lockstep::test
