// Statistics of the data are stored with the model: in the deck of the run and in its checkpoints.
#include <gtest/gtest.h>
#include <data/hdf5_files.hpp>

#include <algorithm>
#include <checkpoint/python.hpp>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <support/message_of.hpp>
#include <support/process.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/data/files/hdf5_array.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/predict/predictor.hpp>
#include <lockstep/train/prediction.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/regression.hpp>
#include <lockstep/train/task/task_options.hpp>

namespace lockstep::train {
namespace {

constexpr std::int64_t samples = 50;

/// Three features a sample; classes of three, and two values of different units.
std::string make_file(const test::ScratchFolder& folder) {
  const std::string file = folder.file("data.h5");
  for (const char* group : {"train/", "test/"}) {
    std::vector<float> features, values;
    std::vector<std::int64_t> classes;
    for (std::int64_t i = 0; i < samples; ++i) {
      for (int f = 0; f < 3; ++f)
        features.push_back(static_cast<float>(100 * f + std::sin(static_cast<double>(3 * i + f))));
      values.push_back(static_cast<float>(1e6 + 1e4 * std::cos(static_cast<double>(i))));
      values.push_back(static_cast<float>(1e-3 * std::sin(static_cast<double>(i))));
      classes.push_back(i % 3);
    }
    const std::string name = group;
    test::write_hdf5(file, name + "speeds", {samples, 3}, features);
    test::write_hdf5(file, name + "forces", {samples, 2}, values);
    test::write_hdf5(file, name + "kind", {samples}, classes);
  }
  return file;
}

Deck deck_of(const std::string& file, const std::string& targets, const std::string& more = "") {
  return Deck::parse("[data]\nkind = \"hdf5\"\npath = \"" + file +
                         "\"\ntrain_features = \"train/speeds\"\ntest_features = "
                         "\"test/speeds\"\ntrain_targets = \"train/" +
                         targets + "\"\ntest_targets = \"test/" + targets + "\"\n" + more +
                         "[model]\nkind = \"mlp\"\nhidden = [8]\n",
                     "test");
}

Batch all_of(const Dataset& data) {
  Batch batch(data, data.size());
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(data.size()));
  std::iota(numbers.begin(), numbers.end(), 0);
  data.load(numbers, batch);
  return batch;
}

TEST(SelfSufficient, TheDeckOfARunHoldsMeasuredValuesAndMeasuresNothingAgain) {
  const test::ScratchFolder folder;
  Deck deck = deck_of(make_file(folder), "forces", "normalise_targets = true\nmean = []\n");
  const Regression task(deck);
  static_cast<void>(read_run_plan(deck));
  Deck again = Deck::parse(deck.resolved(), "deck.toml");
  const auto options = read_task_options(again).data;
  EXPECT_EQ(options.mean, task.signature().input.mean);
  EXPECT_EQ(options.std, task.signature().input.std);
  EXPECT_EQ(options.target_mean, task.signature().output.mean);
  EXPECT_EQ(options.target_std, task.signature().output.std);
  ASSERT_EQ(options.mean.size(), 3U);
  ASSERT_EQ(options.target_std.size(), 2U);
  Deck third = Deck::parse(deck.resolved(), "deck.toml");
  const Regression repeated(third, Sets::test);
  EXPECT_EQ(repeated.data().facts.mean, options.mean);
  EXPECT_EQ(third.read<TrainOptions>("train").seed, again.read<TrainOptions>("train").seed);
}

TEST(SelfSufficient, TheSignatureNamesInputsAndOutputs) {
  const test::ScratchFolder folder;
  const std::string file = make_file(folder);
  Deck values = deck_of(file, "forces");
  const ModelSignature of_values = Regression(values).signature();
  EXPECT_EQ(of_values.input.name, "speeds");
  EXPECT_EQ(of_values.input.shape, Shape{3});
  EXPECT_EQ(of_values.output.name, "forces");
  EXPECT_EQ(of_values.output.shape, Shape{2});
  EXPECT_FALSE(of_values.output.is_scaled());
  EXPECT_EQ(of_values.classes(), 0);
  Deck classes = deck_of(file, "kind", "class_names = [\"a\", \"b\", \"c\"]\n");
  const ModelSignature of_classes = Classification(classes).signature();
  EXPECT_EQ(of_classes.output.name, "kind");
  EXPECT_EQ(of_classes.classes(), 3);
  EXPECT_EQ(of_classes.class_names, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(SelfSufficient, NormalisedTargetsAreFittedAndJudgedInTheirUnits) {
  const test::ScratchFolder folder;
  Deck deck = deck_of(make_file(folder), "forces", "normalise_targets = true\n");
  const Regression task(deck);
  const ModelSignature signature = task.signature();
  const Batch batch = all_of(*task.data().test);
  const auto targets = batch.targets().to_vector<float>();
  // A model with output zero predicts the mean: the loss is the variance, one, for each value.
  const Tensor zero = Tensor::zeros({samples, 2});
  EXPECT_NEAR(task.loss(Variable(zero), batch).data().item(), 1.0, 1e-3);
  std::vector<double> figures(task.metrics(*task.data().test).size());
  task.measure(zero, batch, figures);
  double largest = 0;
  for (std::size_t i = 0; i < targets.size(); ++i)
    largest = std::max(largest, std::abs(targets[i] - signature.output.mean[i % 2]));
  EXPECT_NEAR(figures[1], largest, 0.1) << "in the units of the larger value: ten thousand";
  EXPECT_NEAR(task.metrics(*task.data().test)[0].value(figures[0]), 0.0, 1e-3) << "r2 of the mean";

  nn::manual_seed(1);
  const auto model = task.make_model();
  const Predictor predictor(model, signature);
  std::vector<float> raw(3 * samples), predicted(2 * samples);
  Hdf5Array(folder.file("data.h5"), "test/speeds").read(0, samples, std::span(raw));
  predictor.predict(raw, predicted);
  const NoGradGuard no_grad;
  task.measure(model->forward(Variable(batch.inputs())).data(), batch, figures);
  double error = 0;
  for (std::size_t i = 0; i < targets.size(); ++i)
    error = std::max(error, std::abs(static_cast<double>(predicted[i]) - targets[i]));
  EXPECT_NEAR(error, figures[1], 0.2) << "of 1e6, in f32";
}

TEST(SelfSufficient, PredictedClassesAreTheMostProbableAndCarryTheirNames) {
  const test::ScratchFolder folder;
  const std::string file = make_file(folder), output = folder.file("y.h5");
  Deck deck = deck_of(file, "kind", "class_names = [\"red\", \"green\", \"blue\"]\n");
  const Classification task(deck);
  nn::manual_seed(1);
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    CheckpointWriter().save(group, folder.file("model.h5"),
                            {.model = task.make_model()->state_dict(),
                             .deck = deck.resolved(),
                             .signature = task.signature()});
    const Predictor predictor(folder.file("model.h5"));
    EXPECT_EQ(predict_file(group, predictor, DataSetName::parse(file + ":test/speeds", "speeds"),
                           DataSetName::parse(output, "predictions"))
                  .samples,
              samples);
  });
  std::vector<float> probabilities(3 * samples);
  std::vector<std::int64_t> classes(samples);
  Hdf5Array(output, "predictions").read(0, samples, std::span(probabilities));
  Hdf5Array(output, "predictions_class").read(0, samples, std::span(classes));
  for (std::int64_t i = 0; i < samples; ++i) {
    const float* row = probabilities.data() + 3 * i;
    EXPECT_NEAR(row[0] + row[1] + row[2], 1.0, 1e-5);
    EXPECT_EQ(classes[static_cast<std::size_t>(i)], std::max_element(row, row + 3) - row);
  }
  if (!test::python_has_h5py()) GTEST_SKIP() << "python3 has no h5py (Debian: python3-h5py)";
  EXPECT_EQ(test::run_python(folder.path(), R"(
import h5py
names = h5py.File("y.h5")["predictions"].attrs["class_names"]
assert [name.decode() for name in names] == ["red", "green", "blue"], names
)"),
            0);
}

TEST(PredictFile, TakesSamplesOfTheModelsShapeOrFlatOnes) {
  const test::ScratchFolder folder;
  const std::string file = folder.file("x.h5"), output = folder.file("y.h5");
  nn::manual_seed(1);
  const ModelSignature signature{.input = {.name = "images", .shape = {3, 2, 2}},
                                 .output = {.name = "y", .shape = {2}}};
  const Predictor predictor(nn::mlp({3, 2, 2}, 2, {4}, nn::Head::linear), signature);
  std::vector<float> numbers(2 * 12);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const auto refusal = [&](ProcessGroup& group, const std::string& input) {
    return test::message_of<AgreedError>([&] {
      predict_file(group, predictor, DataSetName::parse(input, "images"), {output, "y"});
    });
  };
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    test::write_hdf5(file, "whole", {2, 3, 2, 2}, numbers);
    test::write_hdf5(file, "flat", {2, 12}, numbers);
    for (const std::string name : {"whole", "flat"})
      EXPECT_EQ(predict_file(group, predictor, {file, name}, {output, "y"}).samples, 2) << name;
    test::write_hdf5(file, "last", {2, 2, 2, 3}, numbers);
    const std::string turned = refusal(group, file + ":last");
    EXPECT_NE(turned.find("samples [2, 2, 3], but the model takes images [3, 2, 2]"),
              std::string::npos)
        << turned;
    EXPECT_NE(turned.find("--input FILE:NAME"), std::string::npos) << turned;
    const std::string narrow = refusal(group, folder.write("x.csv", "a,b\n1,2\n"));
    EXPECT_NE(narrow.find("samples [2], but"), std::string::npos) << narrow;
    EXPECT_EQ(narrow.find("FILE:NAME"), std::string::npos) << "a table has no names: " << narrow;
  });
}

TEST(PredictFile, TakesAllColumnsOfATableWhereTheModelWasTrainedOnNone) {
  const test::ScratchFolder folder;
  const std::string output = folder.file("y.h5");
  nn::manual_seed(1);
  const ModelSignature signature{.input = {.name = "x", .shape = {2}},
                                 .output = {.name = "y", .shape = {1}}};
  const Predictor predictor(nn::mlp({2}, 1, {4}, nn::Head::linear), signature);
  std::vector<float> expected(2), found(2);
  predictor.predict(std::vector<float>{1, 2, 3, 4}, expected);
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    const std::string table = folder.write("x.csv", "a,b\n1,2\n3,4\n");
    EXPECT_EQ(predict_file(group, predictor, DataSetName::parse(table, "x"), {output, "y"}).samples,
              2);
  });
  Hdf5Array(output, "y").read(0, 2, std::span(found));
  EXPECT_EQ(found, expected);
}

TEST(PredictFile, PredictionsThatAreNotFiniteAreCountedAndHaveNoClass) {
  const test::ScratchFolder folder;
  const std::string file = folder.file("x.h5"), output = folder.file("y.h5");
  nn::manual_seed(1);
  const ModelSignature signature{.input = {.name = "x", .shape = {2}},
                                 .output = {.name = "y", .shape = {3}},
                                 .kind = ModelSignature::Output::log_probabilities};
  const auto model = nn::mlp({2}, 3, {4}, nn::Head::log_probabilities);
  for (const auto& parameter : model->parameters()) parameter.data().fill(1e3);  // all are finite
  const Predictor predictor(model, signature);
  std::vector<float> numbers(2 * 5000, 0.5F);  // more than a block: both ranks have some
  for (const std::size_t sample : {4444U, 17U, 18U}) numbers[2 * sample] = 1e38F;
  test::write_hdf5(file, "x", {5000, 2}, numbers);
  for (const int ranks : {1, 2}) {
    run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
      const FilePrediction done = predict_file(group, predictor, {file, "x"}, {output, "y"});
      EXPECT_EQ(done.samples, 5000);
      EXPECT_EQ(done.not_finite, 3);
      EXPECT_EQ(done.first_not_finite, 17);
    });
    std::vector<std::int64_t> classes(5000);
    Hdf5Array(output, "y_class").read(0, 5000, std::span(classes));
    EXPECT_EQ(std::ranges::count(classes, -1), 3);
    EXPECT_EQ(classes[17], -1);
  }
}

TEST(PredictFile, RefusesNamesOfFilesThatAreNotHdf5) {
  const test::ScratchFolder folder;
  nn::manual_seed(1);
  const ModelSignature signature{.input = {.name = "x", .shape = {2}},
                                 .output = {.name = "y", .shape = {1}}};
  const Predictor predictor(nn::mlp({2}, 1, {4}, nn::Head::linear), signature);
  const std::string table = folder.write("x.csv", "a,b\n1,2\n3,4\n");
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    for (const std::string name : {"y.csv", "y.npy"}) {
      const std::string refusal = test::message_of<AgreedError>([&] {
        predict_file(group, predictor, DataSetName::parse(table, "x"), {folder.file(name), "y"});
      });
      EXPECT_NE(refusal.find("name the output " + folder.file("y.h5")), std::string::npos)
          << refusal;
      EXPECT_FALSE(std::filesystem::exists(folder.file(name)));
    }
  });
}

// A running job keeps only its newest checkpoints.
TEST(WithCheckpoint, TakesTheNextNewestWhereTheNewestIsRemovedBeforeItIsRead) {
  const test::ScratchFolder folder;
  const std::filesystem::path checkpoints = folder.file("run/checkpoints");
  const auto save = [&](ProcessGroup& group, std::int64_t step) {
    CheckpointContents contents;
    contents.model.insert("w", Tensor::full({4}, static_cast<double>(step)));
    contents.train.step = step;
    CheckpointWriter().save(group, checkpoint_path(checkpoints, step), contents);
  };
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    for (const std::int64_t step : {10, 20}) save(group, step);
    CheckpointContents read;
    const auto path =
        with_checkpoint(group, folder.file("run"), [&](const std::filesystem::path& found) {
          if (step_of(found) == 20) {
            group.barrier();
            if (group.rank() == 0) std::filesystem::remove(found);
            save(group, 30);
          }
          agree(group, [&] { read = load_checkpoint(found); });
        });
    EXPECT_EQ(path, checkpoint_path(checkpoints, 30));
    EXPECT_EQ(read.train.step, 30);
    // A named file is that very file.
    EXPECT_THROW(with_checkpoint(group, checkpoint_path(checkpoints, 20),
                                 [&](const std::filesystem::path& found) {
                                   agree(group, [&] { read = load_checkpoint(found); });
                                 }),
                 AgreedError);
  });
}

TEST(DataSetName, IsBehindTheLastColonThatIsNotInTheNameOfAFolder) {
  const test::ScratchFolder folder;
  std::filesystem::create_directories(folder.file("10:30"));
  const auto expect = [](const std::string& text, const std::string& file,
                         const std::string& name) {
    const DataSetName found = DataSetName::parse(text, "otherwise");
    EXPECT_EQ(found.file.string(), file) << text;
    EXPECT_EQ(found.name, name) << text;
  };
  for (const std::string& file : {folder.file("y.h5"), folder.file("10:30/y.h5")}) {
    expect(file, file, "otherwise");
    expect(file + ":y", file, "y");
    expect(file + ":group/y", file, "group/y");
  }
  expect("y.h5:group/y", "y.h5", "group/y");
}

}  // namespace
}  // namespace lockstep::train
