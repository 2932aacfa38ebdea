// A table of comma-separated values, from the shell to predictions.
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

/// Three flowers by length and width of their petals, in groups that hardly touch; every second
/// line is of the first kind.
std::string flowers(int lines, int first) {
  std::string text = "kind,length,width\n";
  for (int i = first; i < first + lines; ++i) {
    const int kind = i % 2 == 0 ? 0 : 1 + i / 2 % 2;
    const double length = 2.0 * kind + 0.4 * std::sin(3.7 * i),
                 width = 1.0 + 0.5 * kind + 0.1 * std::cos(1.3 * i);
    const char* const names[] = {"setosa", "versicolor", "virginica"};
    text += std::string(names[kind]) + "," + std::to_string(length) + "," + std::to_string(width) +
            "\n";
  }
  return text;
}

class Table : public testing::Test {
 protected:
  Table() {
    scratch_.write("part-1.csv", flowers(100, 0));
    scratch_.write("part-2.csv", flowers(200, 100));
    scratch_.write("test.csv", flowers(60, 300));
  }

  Arguments deck(const std::string& dir, const Arguments& more = {}) {
    Arguments arguments{
        scratch_.write("deck.toml", "[data]\nkind = \"csv\"\npath = \"" + scratch_.path() +
                                        "/part-*.csv\"\ntest_path = \"" + scratch_.path() +
                                        "/test.csv\"\ntarget_columns = \"kind\"\n"
                                        "[model]\nkind = \"mlp\"\nhidden = 16\n"
                                        "[optimizer]\nkind = \"adam\"\nlr = 0.02\n"
                                        "[train]\nepochs = 8\nbatch_size = 20\n"),
        "--set", "run.dir=\"" + scratch_.file(dir) + "\""};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Json summary(const std::string& dir) {
    return Json::parse(read_file(scratch_.file(dir + "/summary.json")));
  }

  ScratchFolder scratch_;
};

TEST_F(Table, WhoseNumbersLoseTheirDigitsInF32IsTrainedWithAWarning) {
  std::string text = "seconds,length,kind\n";
  for (int i = 0; i < 60; ++i) {
    text += std::to_string(1'700'000'000 + i * 5) + "," + std::to_string(i % 7) + "," +
            std::to_string(i % 2) + "\n";
  }
  const Arguments seconds{"--set", "data.path=\"" + scratch_.write("seconds.csv", text) + "\"",
                          "--set", "data.test_set=false",
                          "--set", "data.test_path=[]"};
  const Finished trained = classify(2, deck("seconds", seconds));
  EXPECT_EQ(trained.exit_code, 0) << trained.output;
  EXPECT_TRUE(trained.says("column seconds loses digits")) << trained.output;
  EXPECT_FALSE(classify(1, deck("flowers")).says("loses digits"));
}

TEST_F(Table, OfWordsIsLearntEvaluatedAndPredictedByItsColumns) {
  const Finished trained = classify(2, deck("run"));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  EXPECT_TRUE(trained.says("300 training and 60 test samples")) << trained.output;
  EXPECT_GT(summary("run").at("test_accuracy").get<double>(), 0.95) << trained.output;
  const Finished judged =
      lockstep_utility({"evaluate", scratch_.file("run"), "--data", scratch_.file("test.csv")});
  EXPECT_EQ(judged.exit_code, 0) << judged.output;
  EXPECT_TRUE(judged.says("versicolor")) << judged.output;
  // Another order of columns, extra ones, and no kinds: inputs are found by name.
  scratch_.write("new.csv", "width,colour,length\n1.5,red,2\n1.0,blue,0\n2.0,white,4\n");
  const Finished predicted =
      lockstep_utility({"predict", scratch_.file("run"), "--input", scratch_.file("new.csv"),
                        "--output", scratch_.file("y.h5")});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.output;
  std::vector<std::int64_t> kinds(3);
  Hdf5Array(scratch_.file("y.h5"), "predictions_class").read(0, 3, std::span(kinds));
  EXPECT_EQ(kinds, (std::vector<std::int64_t>{1, 0, 2}));
  scratch_.write("new.csv", "width,size\n1.5,2\n");
  const Finished refused =
      lockstep_utility({"predict", scratch_.file("run"), "--input", scratch_.file("new.csv"),
                        "--output", scratch_.file("y.h5")});
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_TRUE(refused.says("has no column length")) << refused.output;
}

TEST_F(Table, ClassWeightsFromCountsStandInTheDeckOfTheRun) {
  const Finished trained = classify(
      1, deck("weighted",
              {"--set", "loss.class_weights_from_counts=true", "--set", "train.epochs=1"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  // 150, 75 and 75 of 300 samples.
  EXPECT_NE(read_file(scratch_.file("weighted/deck.toml"))
                .find("[0.6666666666666666, 1.3333333333333333, 1.3333333333333333]"),
            std::string::npos)
      << read_file(scratch_.file("weighted/deck.toml"));
  const Finished judged = lockstep_utility({"evaluate", scratch_.file("weighted")});
  EXPECT_EQ(judged.exit_code, 0) << judged.output;
}

TEST_F(Table, BalancedClassesResumeToTheBitsOfAnUndisturbedRun) {
  const Arguments balanced{"--set", "data.balance_classes=true", "--set", "train.epochs=2"};
  const Finished whole = classify(1, deck("whole", balanced));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  Arguments halves = balanced;
  halves.insert(halves.end(), {"--set", "checkpoint.every_steps=7"});
  ASSERT_EQ(classify(1, deck("halves", halves)).exit_code, 0);
  std::filesystem::copy(scratch_.file("halves/checkpoints/step-00000021.h5"),
                        scratch_.file("middle.h5"));
  halves.push_back("--resume=" + scratch_.file("middle.h5"));
  const Finished resumed = classify(2, deck("halves", halves));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_NEAR(summary("halves").at("train_loss").get<double>(),
              summary("whole").at("train_loss").get<double>(), 1e-5);
}

TEST_F(Table, ATransformerLearnsRowsAndSequences) {
  const Arguments small{"--set", "model.kind=\"transformer\"",
                        "--set", "model.width=8",
                        "--set", "model.depth=1",
                        "--set", "model.heads=2"};
  const Finished rows = classify(1, deck("rows", small));
  ASSERT_EQ(rows.exit_code, 0) << rows.output;
  EXPECT_GT(summary("rows").at("test_accuracy").get<double>(), 0.9) << rows.output;
  const Finished predicted =
      lockstep_utility({"predict", scratch_.file("rows"), "--input", scratch_.file("test.csv"),
                        "--output", scratch_.file("y.h5")});
  EXPECT_EQ(predicted.exit_code, 0) << predicted.output;
  Arguments sequences = small_run(scratch_.file("steps"), small);
  sequences.insert(sequences.end(), {"--set", "model.patch=[1, 0]"});
  const Finished steps = classify(1, sequences);
  ASSERT_EQ(steps.exit_code, 0) << steps.output;
}

// Their names did not fit into the header of a data set.
TEST_F(Table, OfTenThousandClassesIsTrainedAndPredictedWithTheirNames) {
  std::string text = "kind,length,width\n";
  for (int i = 0; i < 10'000; ++i)
    text += "species_" + std::to_string(i) + "," + std::to_string(i % 5) + ",1\n";
  const Finished trained =
      classify(1, deck("many", {"--set", "data.path=\"" + scratch_.write("many.csv", text) + "\"",
                                "--set", "data.test_set=false", "--set", "data.test_path=[]",
                                "--set", "data.train_limit=40", "--set", "model.hidden=2"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.output.substr(0, 2000);
  EXPECT_LT(trained.output.size(), 5000U) << "the names are listed";
  scratch_.write("new.csv", "width,length\n1.5,2\n");
  const Finished predicted =
      lockstep_utility({"predict", scratch_.file("many"), "--input", scratch_.file("new.csv"),
                        "--output", scratch_.file("y.h5")});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.output;
  EXPECT_EQ(Hdf5Array(scratch_.file("y.h5"), "predictions").shape(), Shape({1, 10'000}));
  EXPECT_NE(read_file(scratch_.file("y.h5")).find("species_9999"), std::string::npos);
}

/// A .npy file of zeros, f32 [rows, width], as a sparse file.
std::string hollow_npy(const ScratchFolder& scratch, std::int64_t rows, std::int64_t width) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                       std::to_string(rows) + ", " + std::to_string(width) + "), }";
  header.resize(117, ' ');
  header += '\n';
  const std::string file =
      scratch.write("hollow.npy", std::string("\x93NUMPY\x01\0\x76\0", 10) + header);
  std::filesystem::resize_file(file, static_cast<std::uintmax_t>(128 + 4 * rows * width));
  return file;
}

TEST(LargerThanMemory, InputsArePredictedInPieces) {
  const ScratchFolder scratch;
  constexpr std::int64_t width = 1024, rows = std::int64_t{1} << 19U;
  std::string text, line;
  for (int i = 0; i < width; ++i) text += "x" + std::to_string(i) + ",";
  text += "y\n";
  for (int sample = 0; sample < 8; ++sample) {
    for (int i = 0; i < width; ++i) text += std::to_string((sample + i) % 3) + ",";
    text += "0." + std::to_string(sample) + "\n";
  }
  const std::string table = scratch.write("t.csv", text);
  const Finished trained = run(app(
      1, "apps/regress",
      {scratch.write("deck.toml", "[data]\nkind = \"csv\"\npath = \"" + table +
                                      "\"\ntest_set = false\n[model]\nkind = \"mlp\"\nhidden = 2\n"
                                      "[train]\nepochs = 1\nbatch_size = 8\n"),
       "--set", "run.dir=\"" + scratch.file("run") + "\""}));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const std::string input = hollow_npy(scratch, rows, width);  // 2 GiB
  const Finished predicted = run({"sh", "-c",
                                  "ulimit -v 1500000; exec '" + built("apps/lockstep") +
                                      "' predict '" + scratch.file("run") + "' --input '" + input +
                                      "' --output '" + scratch.file("y.h5") + "'"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.output;
  EXPECT_TRUE(predicted.says("524288 samples")) << predicted.output;
  const Hdf5Array predictions(scratch.file("y.h5"), "predictions");
  std::vector<float> first(2), last(2);
  predictions.read(0, 2, std::span(first));
  predictions.read(rows - 2, rows, std::span(last));
  EXPECT_EQ(first, last);
}

}  // namespace
}  // namespace lockstep::test
