#include <lockstep/data/streamed_dataset.hpp>

#include <gtest/gtest.h>
#include <unistd.h>
#include <data/hdf5_files.hpp>
#include <data/idx_files.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/data/data_options.hpp>
#include <lockstep/data/files/hdf5_array.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::Hdf5Layout;
using test::input_error;
using test::says;
using test::TemporaryFolder;
using test::write_hdf5;

constexpr std::int64_t train_size = 100, test_size = 30;

template <class T>
std::vector<T> some_values(std::int64_t n, std::int64_t below) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>((i * i + 3 * i) % static_cast<std::size_t>(below));
  return values;
}

/// train/ and test/ with features [N, 2, 3] of type T and both kinds of targets.
template <class T>
fs::path write_sets(const TemporaryFolder& folder, const Hdf5Layout& layout = {}) {
  const fs::path file = folder.path() / "data.h5";
  for (const auto& [group, n] : {std::pair("train/", train_size), std::pair("test/", test_size)}) {
    Hdf5Layout flat = layout;
    if (!flat.chunk.empty()) flat.chunk = {layout.chunk[0]};
    const std::string name = group;
    write_hdf5(file, name + "features", {n, 2, 3, 1}, some_values<T>(n * 6, 200), layout);
    write_hdf5(file, name + "labels", {n}, some_values<std::int64_t>(n, 4), flat);
    write_hdf5(file, name + "values", {n, 2}, some_values<double>(n * 2, 17));
    write_hdf5(file, name + "scalar", {n}, some_values<float>(n, 13));
  }
  return file;
}

DataOptions options_for(const fs::path& file, const std::string& targets, bool stream = false) {
  DataOptions options;
  options.kind = Hdf5Options();
  options.path = {file.string()};
  options.files().train_targets = "train/" + targets;
  options.files().test_targets = "test/" + targets;
  options.files().stream = stream;
  options.mean = {2.0};
  options.std = {4.0};
  return options;
}

struct Loaded {
  std::vector<float> inputs, values;
  std::vector<std::int64_t> labels;
  friend bool operator==(const Loaded&, const Loaded&) = default;
};

Loaded load(const Dataset& data, const std::vector<std::int64_t>& indices) {
  Batch batch(data, std::ssize(indices));
  data.load(indices, batch);
  Loaded loaded{batch.inputs().to_vector<float>(), {}, {}};
  if (data.classes() > 0) {
    loaded.labels = batch.targets().to_vector<std::int64_t>();
  } else {
    loaded.values = batch.targets().to_vector<float>();
  }
  return loaded;
}

const std::vector<std::int64_t> shuffled{99, 3, 4, 5, 0, 50, 6, 98, 7, 8, 3};

template <class T>
void expect_all_ways_agree(const Hdf5Layout& layout) {
  const TemporaryFolder folder;
  const fs::path file = write_sets<T>(folder, layout);
  const auto stored = some_values<T>(train_size * 6, 200);
  const auto labels = some_values<std::int64_t>(train_size, 4);
  for (const bool stream : {false, true}) {
    const auto sets = make_datasets(options_for(file, "labels", stream));
    EXPECT_EQ(sets.train->size(), train_size);
    EXPECT_EQ(sets.test->size(), test_size);
    EXPECT_EQ(sets.train->classes(), 3);
    EXPECT_EQ(sets.train->sample_shape(), Shape({2, 3, 1}));
    const Loaded loaded = load(*sets.train, shuffled);
    for (std::size_t i = 0; i < shuffled.size(); ++i) {
      const auto sample = static_cast<std::size_t>(shuffled[i]);
      EXPECT_EQ(loaded.labels[i], labels[sample]);
      for (std::size_t e = 0; e < 6; ++e) {
        const auto x = static_cast<float>(stored[sample * 6 + e]);
        const float divisor = std::is_same_v<T, std::uint8_t> ? 255.0F : 1.0F;
        EXPECT_EQ(loaded.inputs[i * 6 + e], (x / divisor - 2.0F) / 4.0F) << sample << ' ' << e;
      }
    }
  }
}

TEST(Hdf5Dataset, EveryTypeAndLayoutGivesTheSameSamplesInMemoryAndStreamed) {
  const Hdf5Layout chunked{.chunk = {7, 1, 2, 1}};
  const Hdf5Layout compressed{.chunk = {16, 2, 3, 1}, .compressed = true};
  for (const Hdf5Layout& layout :
       {Hdf5Layout{}, chunked, compressed, Hdf5Layout{.big_endian = true}}) {
    expect_all_ways_agree<float>(layout);
    expect_all_ways_agree<double>(layout);
    expect_all_ways_agree<std::uint8_t>(layout);
    expect_all_ways_agree<std::int16_t>(layout);
    expect_all_ways_agree<std::int32_t>(layout);
    expect_all_ways_agree<std::int64_t>(layout);
  }
}

template <class T>
void expect_indices_as_they_are(const Hdf5Layout& layout) {
  const TemporaryFolder folder;
  const fs::path file = write_sets<T>(folder, layout);
  const auto stored = some_values<T>(train_size * 6, 200);
  for (const bool stream : {false, true}) {
    DataOptions options = options_for(file, "labels", stream);
    options.files().indices = true;
    options.mean.clear();
    options.std.clear();
    const auto sets = make_datasets(options);
    EXPECT_EQ(sets.test->input_dtype(), DType::i64);
    EXPECT_EQ(sets.train->sample_shape(), Shape({2, 3, 1}));
    Batch batch(*sets.train, std::ssize(shuffled));
    sets.train->load(shuffled, batch);
    const auto inputs = batch.inputs().to_vector<std::int64_t>();
    ASSERT_EQ(inputs.size(), 6 * shuffled.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto sample = static_cast<std::size_t>(shuffled[i / 6]);
      EXPECT_EQ(inputs[i], static_cast<std::int64_t>(stored[sample * 6 + i % 6]));
    }
  }
}

TEST(Hdf5Dataset, IndicesStayIntegersOfEveryTypeAndLayout) {
  const Hdf5Layout compressed{.chunk = {16, 2, 3, 1}, .compressed = true};
  for (const Hdf5Layout& layout : {Hdf5Layout{}, compressed, Hdf5Layout{.big_endian = true}}) {
    expect_indices_as_they_are<std::uint8_t>(layout);
    expect_indices_as_they_are<std::int16_t>(layout);
    expect_indices_as_they_are<std::int32_t>(layout);
    expect_indices_as_they_are<std::int64_t>(layout);
  }
}

TEST(Hdf5Dataset, IndicesAreIntegersAndNothingChangesThem) {
  const TemporaryFolder folder;
  for (const bool stream : {false, true}) {
    DataOptions options = options_for(write_sets<std::int32_t>(folder), "labels", stream);
    options.files().indices = true;
    const auto message = [&] { return input_error([&] { return make_datasets(options); }); };
    EXPECT_TRUE(says(message(), "data.indices = true passes features on unscaled, but data.mean"));
    options.mean.clear();
    options.std.clear();
    options.augment.flip = true;
    EXPECT_TRUE(says(message(), "data.indices = true passes features on unscaled, but data.mean"));
    options.augment.flip = false;
    fs::remove(folder.path() / "data.h5");
    write_sets<float>(folder);
    EXPECT_TRUE(says(message(), "needs features that are integers, not train/features of"));
    fs::remove(folder.path() / "data.h5");
  }
}

TEST(Hdf5Dataset, ValuesKeepTheirShape) {
  const TemporaryFolder folder;
  const fs::path file = write_sets<float>(folder);
  for (const bool stream : {false, true}) {
    const auto vectors = make_datasets(options_for(file, "values", stream), TargetKind::values);
    EXPECT_EQ(vectors.train->target_shape(), Shape({2}));
    EXPECT_EQ(vectors.train->target_dtype(), DType::f32);
    const auto stored = some_values<double>(train_size * 2, 17);
    const Loaded loaded = load(*vectors.train, {5, 2});
    EXPECT_EQ(loaded.values,
              (std::vector<float>{static_cast<float>(stored[10]), static_cast<float>(stored[11]),
                                  static_cast<float>(stored[4]), static_cast<float>(stored[5])}));

    const auto scalars = make_datasets(options_for(file, "scalar", stream), TargetKind::values);
    EXPECT_EQ(scalars.train->target_shape(), Shape({}));
    EXPECT_EQ(load(*scalars.train, {5}).values, std::vector{some_values<float>(train_size, 13)[5]});
    // Whole numbers may be fitted, too.
    EXPECT_EQ(
        make_datasets(options_for(file, "labels", stream), TargetKind::values).train->classes(), 0);
  }
}

TEST(Hdf5Dataset, ShapesOfSamples) {
  const TemporaryFolder folder;
  const auto shape_of = [&](std::vector<std::int64_t> extents) {
    const fs::path file = folder.path() / "one.h5";
    fs::remove(file);
    std::int64_t n = 1;
    for (const auto extent : extents) n *= extent;
    for (const char* group : {"train/", "test/"}) {
      write_hdf5(file, group + std::string("features"), extents, some_values<float>(n, 9));
      write_hdf5(file, group + std::string("scalar"), {extents[0]},
                 some_values<float>(extents[0], 9));
    }
    return make_datasets(options_for(file, "scalar"), TargetKind::values).train->sample_shape();
  };
  EXPECT_EQ(shape_of({8}), Shape({1}));
  EXPECT_EQ(shape_of({8, 3}), Shape({3}));
  EXPECT_EQ(shape_of({8, 4, 5}), Shape({1, 4, 5})) << "grey images have one channel";
  EXPECT_EQ(shape_of({8, 3, 4, 5}), Shape({3, 4, 5}));
  EXPECT_EQ(shape_of({8, 2, 3, 4, 5}), Shape({2, 3, 4, 5}));
}

TEST(Hdf5Dataset, NormalisationIsTheTrainingSetsOwnWhereNoneIsGiven) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "data.h5";
  // Enough to be measured in several slabs; the second feature is constant.
  constexpr std::int64_t n = 200'000;
  std::vector<float> features;
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<float>(1000 + std::sin(static_cast<double>(i)));
    features.push_back(x);
    features.push_back(3.0F);
    sum += x;
  }
  for (std::int64_t i = 0; i < n; ++i)
    squares += std::pow(features[static_cast<std::size_t>(2 * i)] - sum / n, 2);
  for (const char* group : {"train/", "test/"}) {
    write_hdf5(file, group + std::string("features"), {n, 2}, features);
    write_hdf5(file, group + std::string("scalar"), {n}, some_values<float>(n, 9));
  }
  auto options = options_for(file, "scalar");
  const auto samples =
      test::open_samples(file, "train/features", "train/scalar", TargetKind::values);
  const Normalisation measured = measure_normalisation(*samples.features, samples.size, 1.0);
  EXPECT_NEAR(measured.mean[0], sum / n, 1e-9);
  EXPECT_NEAR(measured.std[0], std::sqrt(squares / n), 1e-9);
  EXPECT_EQ(measured.mean[1], 3.0);
  EXPECT_EQ(measured.std[1], 1.0) << "a constant is not divided by zero";
  options.mean.clear();
  options.std.clear();
  Loaded in_memory, streamed;
  in_memory = load(*make_datasets(options, TargetKind::values).train, {0, 7});
  options.files().stream = true;
  streamed = load(*make_datasets(options, TargetKind::values).train, {0, 7});
  EXPECT_EQ(in_memory, streamed);
  EXPECT_EQ(in_memory.inputs[0], (features[0] - static_cast<float>(measured.mean[0])) /
                                     static_cast<float>(measured.std[0]));
  EXPECT_EQ(in_memory.inputs[1], 0.0F);
}

TEST(Hdf5Dataset, OneMeanGoesWithADeviationAChannel) {
  const TemporaryFolder folder;
  auto options = options_for(write_sets<float>(folder), "scalar");
  options.std.clear();  // measured: two channels
  const auto sets = make_datasets(options, TargetKind::values);
  ASSERT_EQ(sets.facts.std.size(), 2U);
  const Loaded loaded = load(*sets.train, {0, 1});
  const auto stored = some_values<float>(train_size * 6, 200);
  for (std::size_t i = 0; i < loaded.inputs.size(); ++i) {
    EXPECT_EQ(loaded.inputs[i],
              (stored[i] - 2.0F) / static_cast<float>(sets.facts.std[i % 6 < 3 ? 0 : 1]));
  }
}

TEST(Hdf5Dataset, DerivedValuesAloneMakeTheSameTestSet) {
  const TemporaryFolder folder;
  for (const bool stream : {false, true}) {
    auto options = options_for(write_sets<std::uint8_t>(folder), "labels", stream);
    options.mean.clear();
    options.std.clear();
    options.class_names = {"a", "b", "c"};
    const auto both = make_datasets(options);
    EXPECT_EQ(both.facts.input, "features");
    EXPECT_EQ(both.facts.target, "labels");
    EXPECT_EQ(both.facts.divisor, 255);
    EXPECT_EQ(both.facts.class_names, options.class_names);
    EXPECT_TRUE(both.facts.target_mean.empty());
    const DataOptions found = as_found(options, both);
    EXPECT_EQ(found.mean, both.facts.mean);
    EXPECT_EQ(found.std.size(), 2U);
    EXPECT_EQ(found.files().classes, 3);
    const auto test = make_test_set(found, TargetKind::classes);
    EXPECT_EQ(test.train, nullptr);
    EXPECT_EQ(load(*test.test, {29, 0, 7}), load(*both.test, {29, 0, 7}));
    fs::remove(folder.path() / "data.h5");
  }
}

TEST(Hdf5Dataset, TargetsAreMeasuredWhereTheyAreToBeNormalised) {
  const TemporaryFolder folder;
  auto options = options_for(write_sets<float>(folder), "values");
  options.normalise_targets = true;
  const auto sets = make_datasets(options, TargetKind::values);
  const auto values = some_values<double>(train_size * 2, 17);
  for (std::size_t c = 0; c < 2; ++c) {
    double mean = 0, squares = 0;
    for (std::size_t i = c; i < values.size(); i += 2) mean += values[i] / train_size;
    for (std::size_t i = c; i < values.size(); i += 2) squares += std::pow(values[i] - mean, 2);
    EXPECT_NEAR(sets.facts.target_mean[c], mean, 1e-9);
    EXPECT_NEAR(sets.facts.target_std[c], std::sqrt(squares / train_size), 1e-9);
  }
  options.target_mean = {1.5};
  const DataOptions found = as_found(options, make_datasets(options, TargetKind::values));
  EXPECT_EQ(found.target_mean, std::vector{1.5});
  EXPECT_EQ(found.target_std, sets.facts.target_std);
}

TEST(Hdf5Dataset, ClassNamesAreOneAClassOrNone) {
  const TemporaryFolder folder;
  auto options = options_for(write_sets<float>(folder), "labels");
  options.class_names = {"a", "b"};
  EXPECT_TRUE(says(input_error([&] { static_cast<void>(make_datasets(options)); }),
                   "data.class_names has 2 names, but the data have 3 classes"));
}

TEST(Hdf5Dataset, LimitsAndTestFilesOfTheirOwn) {
  const TemporaryFolder folder, other;
  const fs::path file = write_sets<float>(folder), second = write_sets<float>(other);
  auto options = options_for(file, "labels");
  options.train_limit = 40;
  options.test_limit = 10;
  options.files().test_path = {second.string()};
  options.files().test_features = "train/features";
  options.files().test_targets = "train/labels";
  for (const bool stream : {false, true}) {
    options.files().stream = stream;
    const auto sets = make_datasets(options);
    EXPECT_EQ(sets.train->size(), 40);
    EXPECT_EQ(sets.test->size(), 10);
    Batch batch(*sets.train, 1);
    EXPECT_THROW(sets.train->load(std::vector<std::int64_t>{40}, batch), Error);
  }
}

TEST(Hdf5Dataset, LoadersOfSeveralThreadsShareAFile) {
  const TemporaryFolder folder;
  for (const Hdf5Layout& layout :
       {Hdf5Layout{}, Hdf5Layout{.chunk = {16, 2, 3, 1}, .compressed = true}}) {
    fs::remove(folder.path() / "data.h5");
    const fs::path file = write_sets<float>(folder, layout);
    const auto sets = make_datasets(options_for(file, "values", true), TargetKind::values);
    const Loaded expected = load(*sets.train, shuffled);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) EXPECT_EQ(load(*sets.train, shuffled), expected);
      });
    }
    for (auto& thread : threads) thread.join();
  }
}

// ---- faults of files ----

class WrongHdf5 : public testing::Test {
 protected:
  std::string error(const DataOptions& options, TargetKind kind = TargetKind::classes) {
    return input_error([&] { return make_datasets(options, kind); });
  }
  std::string error(const std::string& targets, TargetKind kind = TargetKind::classes) {
    return error(options_for(file_, targets), kind);
  }
  TemporaryFolder folder_;
  fs::path file_ = write_sets<float>(folder_);
};

TEST_F(WrongHdf5, FileThatIsMissingOrNone) {
  EXPECT_TRUE(says(error(options_for(folder_.path() / "no.h5", "labels")), "no.h5 is missing"));
  EXPECT_TRUE(says(error(options_for(folder_.path(), "labels")), "which is not a file"));
  const fs::path text = folder_.write("text.h5", {'h', 'e', 'l', 'l', 'o'});
  EXPECT_TRUE(says(error(options_for(text, "labels")), "text.h5 is not an HDF5 file"));
  EXPECT_TRUE(says(error(options_for("auto", "labels")), "need data.path"));
}

TEST_F(WrongHdf5, TruncatedFileNeverStartsARun) {
  const auto whole = fs::file_size(file_);
  for (const auto size :
       {whole - 1, whole / 2, whole / 4, std::uintmax_t{600}, std::uintmax_t{96}}) {
    fs::resize_file(file_, size);
    const std::string message = error("labels");
    EXPECT_TRUE(says(message, file_.string())) << size;
    EXPECT_TRUE(says(message, "fresh copy")) << size;
  }
}

TEST_F(WrongHdf5, SetsOfTwoSampleShapesAreToldByTheirShapes) {
  DataOptions options = options_for(file_, "labels");
  options.files().test_features = "test/values";  // [2] instead of [2, 3, 1]
  options.mean.clear();
  options.std.clear();
  const std::string message = error(options);
  EXPECT_TRUE(says(message, "test/values of ") && says(message, " has samples [2], but ") &&
              says(message, " has [2, 3, 1]. Name data of one shape."))
      << message;
}

TEST_F(WrongHdf5, MissingDataSetNamesTheNearestAndAllThereAre) {
  const std::string message = error("lables");
  EXPECT_TRUE(says(message, "has no data set train/lables"));
  EXPECT_TRUE(says(message, "Did you mean train/labels?"));
  EXPECT_TRUE(says(message, "train/features f32 [100, 2, 3, 1]"));
  EXPECT_TRUE(says(message, "test/values f64 [30, 2]"));
  auto options = options_for(file_, "labels");
  options.files().train_features = "train";
  EXPECT_TRUE(says(error(options), "train (it is a group)"));
  options.files().train_features = "";
  EXPECT_TRUE(says(error(options), "has no data set"));
}

TEST_F(WrongHdf5, CountsThatDifferPrintBoth) {
  write_hdf5(file_, "train/short", {train_size - 1}, some_values<std::int64_t>(train_size - 1, 4));
  const std::string message = error("short");
  EXPECT_TRUE(says(message, "100 samples in train/features"));
  EXPECT_TRUE(says(message, "99 targets in train/short"));
}

TEST_F(WrongHdf5, TrainAndTestOfDifferentShapesPrintBoth) {
  auto options = options_for(file_, "values");
  options.files().test_targets = "test/scalar";
  EXPECT_TRUE(
      says(error(options, TargetKind::values), "training targets are [2], test targets []"));
}

TEST_F(WrongHdf5, TargetsOfTheWrongType) {
  EXPECT_TRUE(
      says(error("values"), "classes must be integers [N], but the targets are train/values"));
  EXPECT_TRUE(says(error("values"), "f64 [100, 2]"));
  test::write_hdf5_text(file_, "train/text", "words");
  EXPECT_TRUE(says(error("text"), "does not hold numbers"));
  DataOptions synthetic;
  synthetic.kind = SyntheticOptions();
  EXPECT_TRUE(says(error(synthetic, TargetKind::values), "classes, not values"));
}

TEST_F(WrongHdf5, LabelsBeyondTheClasses) {
  auto options = options_for(file_, "labels");
  for (const bool stream : {false, true}) {
    options.files().stream = stream;
    options.files().classes = 2;
    EXPECT_TRUE(says(error(options), "is not in [0, 2)"));
  }
  write_hdf5(file_, "train/negative", {train_size}, std::vector<std::int64_t>(train_size, -1));
  options = options_for(file_, "labels");
  options.files().train_targets = "train/negative";
  EXPECT_TRUE(says(error(options), "label -1 of sample 0"));
}

TEST_F(WrongHdf5, AFlippedBitOfALabelIsNoClass) {
  for (const int bit : {10, 12, 30, 40, 62}) {
    auto labels = some_values<std::int64_t>(train_size, 4);
    labels[57] ^= std::int64_t{1} << bit;
    const std::string name = "train/flipped" + std::to_string(bit);
    write_hdf5(file_, name, {train_size}, labels);
    auto options = options_for(file_, "labels");
    options.files().train_targets = name;
    for (const bool stream : {false, true}) {
      options.files().stream = stream;
      const std::string message = error(options);
      EXPECT_TRUE(says(message, "label " + std::to_string(labels[57]) + " of sample 57"))
          << message;
      EXPECT_TRUE(says(message, file_.string()) && says(message, "set data.classes")) << message;
    }
    options.files().classes = labels[57] + 1;  // the external file is intended
    EXPECT_EQ(make_datasets(options).train->classes(), labels[57] + 1);
  }
}

TEST_F(WrongHdf5, NumbersThatAreNotFiniteAreNamed) {
  auto features = some_values<float>(train_size * 6, 9);
  features[6 * 42 + 5] = std::nanf("");
  write_hdf5(file_, "train/nan", {train_size, 2, 3, 1}, features);
  auto values = some_values<float>(train_size, 9);
  values[17] = -std::numeric_limits<float>::infinity();
  write_hdf5(file_, "train/infinite", {train_size}, values);

  auto options = options_for(file_, "scalar");
  options.files().train_features = "train/nan";
  EXPECT_TRUE(says(error(options, TargetKind::values), "element 5 of sample 42 is nan"));
  options.mean.clear();
  EXPECT_TRUE(says(error(options, TargetKind::values), "element 5 of sample 42 is nan"));
  options = options_for(file_, "infinite");
  options.files().test_targets = "test/scalar";
  EXPECT_TRUE(says(error(options, TargetKind::values), "element 0 of sample 17 is -inf"));

  options.files().stream = true;
  const auto sets = make_datasets(options, TargetKind::values);
  EXPECT_NO_THROW(load(*sets.train, {16, 18}));
  EXPECT_TRUE(says(input_error([&] { return load(*sets.train, {18, 17}); }), "sample 17 is -inf"));
}

TEST_F(WrongHdf5, FileChangedOrCutWhileTheRunReadsIt) {
  const auto sets = make_datasets(options_for(file_, "labels", true));
  EXPECT_NO_THROW(load(*sets.train, {1}));
  // Another file under the name does no harm: the old one stays open.
  fs::rename(file_, folder_.path() / "old.h5");
  folder_.write("data.h5", {1, 2, 3});
  EXPECT_NO_THROW(load(*sets.train, {1}));
  fs::resize_file(folder_.path() / "old.h5", 5000);
  EXPECT_TRUE(says(input_error([&] { return load(*sets.train, {1}); }), "was changed while"));
}

TEST_F(WrongHdf5, ChunksThatTheFileCannotHold) {
  // HDF5 itself would read past their end.
  const std::string good{5, 0, 0, 0, 6, 0, 0, 0, 4, 0, 0, 0};  // extents and the size of an element
  for (const std::string& bad :
       std::vector<std::string>{{5, 0, 0, 0, 6, 0, 8, 0}, {9, 0, 0, 0, 6, 0, 0, 0}}) {
    const auto file = folder_.path() / "chunks.h5";
    fs::remove(file);
    write_hdf5(file, "train/features", {24, 6}, std::vector<float>(144, 1.0F),
               Hdf5Layout{.chunk = {5, 6}});
    write_hdf5(file, "train/targets", {24}, std::vector<float>(24, 1.0F));
    auto bytes = test::read_file(file);
    const auto at = std::search(bytes.begin(), bytes.end(), good.begin(), good.end());
    ASSERT_NE(at, bytes.end());
    std::copy(bad.begin(), bad.end(), at);
    folder_.write("chunks.h5", bytes);
    EXPECT_TRUE(says(input_error([&] {
                       return test::open_samples(file, "train/features", "train/targets",
                                                 TargetKind::values);
                     }),
                     "chunks.h5 is damaged or incomplete"));
  }
}

TEST_F(WrongHdf5, ExtentsWhoseProductOverflows) {
  const auto file = folder_.path() / "extents.h5";
  write_hdf5(file, "train/features", {24, 6}, std::vector<float>(144, 1.0F),
             Hdf5Layout{.chunk = {5, 6}});
  write_hdf5(file, "train/targets", {24}, std::vector<float>(24, 1.0F));
  auto bytes = test::read_file(file);
  const std::string good{24, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0};
  int found = 0;
  for (auto at = bytes.begin();; ++found) {  // extents of the data set, and their limits
    at = std::search(at, bytes.end(), good.begin(), good.end());
    if (at == bytes.end()) break;
    at += static_cast<std::ptrdiff_t>(good.size());
    at[-1] = 0x10;  // 6 + 2^60
  }
  ASSERT_GE(found, 1);
  folder_.write("extents.h5", bytes);
  const std::string error = input_error([&] {
    return test::open_samples(file, "train/features", "train/targets", TargetKind::values);
  });
  EXPECT_TRUE(says(error, "it is larger than any file can be")) << error;
}

TEST_F(WrongHdf5, NothingToRead) {
  write_hdf5(file_, "train/none", {0, 3}, std::vector<float>{});
  write_hdf5(file_, "train/nothing", {0}, std::vector<float>{});
  auto options = options_for(file_, "nothing");
  options.files().train_features = "train/none";
  EXPECT_TRUE(says(error(options, TargetKind::values), "a data set needs samples"));
}

/// Floats that exceed this machine's memory.
std::int64_t floats_of_memory() {
  return sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / static_cast<std::int64_t>(sizeof(float));
}

TEST_F(WrongHdf5, MoreThanTheMemoryOfTheMachineIsRefusedBeforeItIsTaken) {
  const std::int64_t n = floats_of_memory();
  test::write_sparse_hdf5(file_, "train/huge", {n, 2, 3, 1});
  test::write_sparse_hdf5(file_, "train/huge_targets", {n});
  auto options = options_for(file_, "huge_targets");
  options.files().train_features = "train/huge";
  options.files().test_targets = "test/scalar";
  options.mean = {0.0};  // or all of it is read for that
  options.std = {1.0};
  EXPECT_TRUE(says(error(options, TargetKind::values), "data.stream = true"));
}

TEST_F(WrongHdf5, OneSampleThatIsLargerThanTheMachineIsRefusedBeforeItIsTaken) {
  test::write_sparse_hdf5(file_, "train/wide", {4, floats_of_memory() / 16});
  write_hdf5(file_, "train/four", {4}, std::vector<float>(4));
  auto options = options_for(file_, "four", true);
  options.files().train_features = "train/wide";
  EXPECT_TRUE(says(error(options, TargetKind::values), "one sample takes "));
}

TEST(Hdf5Array, RefusesNumbersThatStandForMissingValues) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "era5.nc";
  const float fill = 9.96921e36F;
  write_hdf5<float>(file, "t2m", {3, 2}, {1, 2, 3, fill, 5, 6});
  write_hdf5<std::int16_t>(file, "mask", {3}, {1, -99, 2});
  EXPECT_NO_THROW(test::open_samples(file, "t2m", "mask", TargetKind::values));
  test::write_hdf5_attribute(file, "t2m", "_FillValue", static_cast<double>(fill));
  test::write_hdf5_attribute(file, "mask", "missing_value", -99);
  const Hdf5Array weather(file, "t2m"), mask(file, "mask");
  std::vector<float> row(2);
  weather.read(0, 1, row);
  EXPECT_EQ(row, (std::vector<float>{1, 2}));
  const std::string said = input_error([&] { weather.read(1, 2, row); });
  EXPECT_TRUE(says(said, "element 1 of sample 1 is 9.96921")) << said;
  EXPECT_TRUE(says(said, "stands for a missing value (attribute _FillValue)")) << said;
  std::vector<std::int64_t> labels(3);
  EXPECT_TRUE(says(input_error([&] { mask.read(0, 3, labels); }),
                   "element 0 of sample 1 is -99, which stands for a missing value"));
  std::vector<std::uint8_t> bytes(1);
  mask.read(0, 1, bytes);  // -99 is no byte
  EXPECT_EQ(bytes[0], 1);
}

TEST(Hdf5Array, RefusesPackedNumbers) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "era5.nc";
  for (const std::string name : {"plain", "scaled", "shifted"})
    write_hdf5<std::int16_t>(file, name, {2}, {1, 2});
  test::write_hdf5_attribute(file, "plain", "scale_factor", 1);
  test::write_hdf5_attribute(file, "plain", "add_offset", 0);
  test::write_hdf5_attribute(file, "scaled", "scale_factor", 0.01);
  test::write_hdf5_attribute(file, "shifted", "add_offset", 273.15);
  EXPECT_NO_THROW(Hdf5Array(file, "plain"));
  EXPECT_TRUE(says(input_error([&] { Hdf5Array(file, "scaled"); }),
                   "is packed: its attribute scale_factor = 0.01"));
  EXPECT_TRUE(says(input_error([&] { Hdf5Array(file, "shifted"); }),
                   "is packed: its attribute add_offset = 273.15"));
}

}  // namespace
}  // namespace lockstep
