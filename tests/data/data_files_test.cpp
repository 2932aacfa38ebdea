// Samples in .npy files, in tables, and in several files at once equal those of one HDF5 file.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <data/hdf5_files.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/data/files/data_files.hpp>
#include <lockstep/data/files/hdf5_array.hpp>
#include <lockstep/data/files/joined_array.hpp>
#include <lockstep/data/files/npy_array.hpp>
#include <numeric>
#include <support/message_of.hpp>
#include <support/process.hpp>

#include "npy_files.hpp"
#include "stored_numbers.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::counted;
using test::npy;
using test::ScratchFolder;

TEST(Hdf5Array, BooleansOfNumpyAreZeroAndOne) {
  const ScratchFolder folder;
  const fs::path file = folder.file("bool.h5");
  const hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
  std::int8_t value = 0;
  H5Tenum_insert(type, "FALSE", &value);
  value = 1;
  H5Tenum_insert(type, "TRUE", &value);
  const hid_t h5 = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const std::array<hsize_t, 2> extents{3, 2}, chunk{2, 2};
  const std::array<std::int8_t, 6> numbers{0, 1, 1, 1, 0, 0};
  const hid_t space = H5Screate_simple(2, extents.data(), nullptr);
  const hid_t chunked = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(chunked, 2, chunk.data());
  H5Pset_deflate(chunked, 6);
  for (const auto& [name, list] : {std::pair<const char*, hid_t>{"plain", H5P_DEFAULT},
                                   std::pair<const char*, hid_t>{"chunked", chunked}}) {
    const hid_t set = H5Dcreate2(h5, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    ASSERT_GE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), 0);
    H5Dclose(set);
  }
  H5Pclose(chunked);
  H5Sclose(space);
  H5Tclose(type);
  H5Fclose(h5);
  for (const char* name : {"plain", "chunked"}) {
    const Hdf5Array array(file, name);
    EXPECT_TRUE(array.integers()) << name;
    EXPECT_FALSE(array.bytes()) << "they are not divided by 255";
    EXPECT_EQ(all_of<float>(array), (std::vector<float>{0, 1, 1, 1, 0, 0})) << name;
    EXPECT_EQ(all_of<std::int64_t>(array), (std::vector<std::int64_t>{0, 1, 1, 1, 0, 0})) << name;
    expect_says(array.description(), "bool [3, 2]");
  }
}

// A filter that was unavailable at writing was skipped, so the data can be read.
TEST(Hdf5Array, AFilterThatThisHdf5LacksIsNamed) {
  const ScratchFolder folder;
  const fs::path file = folder.file("lzf.h5");
  constexpr H5Z_filter_t lzf = 32000;
  if (H5Zfilter_avail(lzf) > 0) GTEST_SKIP() << "this HDF5 has lzf";
  const hid_t h5 = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const std::array<hsize_t, 1> extents{4};
  const std::array<float, 4> numbers{1, 2, 3, 4};
  const hid_t space = H5Screate_simple(1, extents.data(), nullptr);
  const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, 1, extents.data());
  ASSERT_GE(H5Pset_filter(list, lzf, H5Z_FLAG_OPTIONAL, 0, nullptr), 0);
  const auto make = [&](const char* name) {
    return H5Dcreate2(h5, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  };
  const hid_t skipped = make("skipped"), compressed = make("compressed");
  ASSERT_GE(H5Dwrite(skipped, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), 0);
  const hsize_t first = 0;
  ASSERT_GE(H5Dwrite_chunk(compressed, H5P_DEFAULT, 0, &first, sizeof numbers, numbers.data()), 0);
  H5Dclose(skipped);
  H5Dclose(compressed);
  H5Pclose(list);
  H5Sclose(space);
  H5Fclose(h5);
  EXPECT_EQ(all_of<float>(Hdf5Array(file, "skipped")), (std::vector<float>{1, 2, 3, 4}));
  const Hdf5Array array(file, "compressed");
  const std::string message =
      test::message_of<InputError>([&] { static_cast<void>(all_of<float>(array)); });
  expect_says(message, "compressed of " + file.string());
  expect_says(message, "32000");
  expect_says(message, "which this HDF5 does not have. Rewrite it with compression=\"gzip\"");
  EXPECT_EQ(message.find("damaged"), std::string::npos) << message;
}

// HDF5 reopens the file, and a failure to open it is not a wrong kind of file.
TEST(Hdf5Array, ThatTheLimitOfOpenFilesKeepsClosedSaysSo) {
  const ScratchFolder folder;
  const fs::path file = folder.file("numbers.h5");
  test::write_hdf5(file, "x", {2, 3}, counted(6));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(STDERR_FILENO);
  ::close(next);
  for (const int more : {0, 1}) {
    rlimit low = before;
    low.rlim_cur = static_cast<rlim_t>(next + more);
    ::setrlimit(RLIMIT_NOFILE, &low);
    const std::string message =
        test::message_of<InputError>([&] { static_cast<void>(Hdf5Array(file, "x")); });
    ::setrlimit(RLIMIT_NOFILE, &before);
    expect_says(message, "numbers.h5: Too many open files");
    expect_says(message, "ulimit -n");
  }
  EXPECT_EQ(Hdf5Array(file, "x").rows(), 2);
}

TEST(JoinedArray, IsOneArrayAfterAnother) {
  const ScratchFolder folder;
  const std::vector<float> all = counted(14);
  const auto part = [&](const char* name, std::size_t first, std::size_t last) {
    const std::vector<float> rows(all.begin() + static_cast<std::ptrdiff_t>(2 * first),
                                  all.begin() + static_cast<std::ptrdiff_t>(2 * last));
    return std::make_shared<const NpyArray>(
        folder.write(name, npy("<f4", fmt::format("({}, 2)", last - first), rows)));
  };
  const JoinedArray joined({part("a.npy", 0, 3), part("b.npy", 3, 4), part("c.npy", 4, 7)});
  EXPECT_EQ(joined.shape(), Shape({7, 2}));
  for (std::int64_t begin = 0; begin <= 7; ++begin) {
    for (std::int64_t end = begin; end <= 7; ++end) {
      std::vector<float> rows(static_cast<std::size_t>(2 * (end - begin)));
      joined.read(begin, end, std::span(rows));
      EXPECT_TRUE(std::equal(rows.begin(), rows.end(), all.begin() + 2 * begin)) << begin << end;
    }
  }
  const auto other =
      std::make_shared<const NpyArray>(folder.write("d.npy", npy("<f4", "(2, 3)", counted(6))));
  expect_says(test::message_of<InputError>([&] {
                static_cast<void>(JoinedArray({part("a.npy", 0, 3), other}));
              }),
              "cannot be joined");
}

TEST(DataFiles, APatternMeansItsMatchesInTheOrderOfNames) {
  const ScratchFolder folder;
  for (const char* name : {"part-2.h5", "part-0.h5", "part-1.h5", "other.h5"})
    folder.write(name, "");
  const std::string in = folder.path() + "/";
  EXPECT_EQ(files_of({in + "part-*.h5", in + "other.h5"}),
            (std::vector<fs::path>{in + "part-0.h5", in + "part-1.h5", in + "part-2.h5",
                                   in + "other.h5"}));
  EXPECT_EQ(files_of({in + "missing.h5"}), std::vector<fs::path>{in + "missing.h5"});
  expect_says(
      test::message_of<InputError>([&] { static_cast<void>(files_of({in + "none-*.h5"})); }),
      "no file matches " + in + "none-*.h5");
}

/// Every sample and target of a data set.
std::pair<std::vector<float>, std::vector<std::int64_t>> contents_of(const Dataset& data) {
  Batch batch(data, data.size());
  std::vector<std::int64_t> all(static_cast<std::size_t>(data.size()));
  std::iota(all.begin(), all.end(), 0);
  data.load(all, batch);
  return {batch.inputs().to_vector<float>(), batch.targets().to_vector<std::int64_t>()};
}

TEST(DataFiles, SamplesInSeveralFilesOfAnyKindAreThoseOfOneHdf5File) {
  const ScratchFolder folder;
  const std::string in = folder.path() + "/";
  const std::vector<float> features = counted(40);
  const std::vector<std::int64_t> labels{0, 1, 2, 0, 1, 2, 0, 1, 2, 2};
  const auto write_part = [&](const std::string& name, std::int64_t first, std::int64_t last) {
    const std::vector<float> x(features.begin() + 4 * first, features.begin() + 4 * last);
    const std::vector<std::int64_t> y(labels.begin() + first, labels.begin() + last);
    const std::int64_t n = last - first;
    fs::create_directories(in + name + "/train");
    folder.write(name + "/train/features.npy", npy("<f4", fmt::format("({}, 4)", n), x));
    folder.write(name + "/train/targets.npy", npy("<i8", fmt::format("({},)", n), y));
    test::write_hdf5(in + name + ".h5", "train/features", {last - first, 4}, x);
    test::write_hdf5(in + name + ".h5", "train/targets", {last - first}, y);
    std::string csv = "a,b,c,d,class\n";
    for (std::size_t row = 0; row < y.size(); ++row) {
      for (std::size_t i = 0; i < 4; ++i) csv += std::to_string(x[4 * row + i]) + ",";
      csv += std::to_string(y[row]) + "\n";
    }
    folder.write(name + ".csv", csv);
  };
  write_part("whole", 0, 10);
  write_part("part-1", 0, 3);
  write_part("part-2", 3, 4);
  write_part("part-3", 4, 10);
  DataOptions whole = options_of(Hdf5Options(), {in + "whole.h5"});
  expect_says(test::message_of<InputError>([&] { static_cast<void>(make_datasets(whole)); }),
              "Data without a test set are read with data.test_set = false");
  whole.test_set = false;
  const auto expected = contents_of(*make_datasets(whole).train);
  for (const bool stream : {false, true}) {
    for (const auto& [kind, path] :
         std::vector<std::pair<DataKind, std::string>>{{Hdf5Options(), "part-*.h5"},
                                                       {NpyOptions(), "whole"},
                                                       {NpyOptions(), "part-?"},
                                                       {CsvOptions(), "part-*.csv"}}) {
      DataOptions options = options_of(kind, {in + path});
      options.test_set = false;
      options.files().stream = stream;
      EXPECT_EQ(target_kind(options), TargetKind::classes) << path;
      const Datasets sets = make_datasets(options);
      EXPECT_EQ(sets.train->classes(), 3) << path;
      EXPECT_EQ(contents_of(*sets.train), expected) << path << " stream " << stream;
    }
  }
}

TEST(DataFiles, ATableWithoutFeaturesGetsAHintAtSeparators) {
  const ScratchFolder folder;
  for (const std::string header : {"a b kind", "a|b|kind"}) {
    DataOptions options = options_of(CsvOptions(), {folder.write("s.csv", header + "\n1\n2\n")});
    options.test_set = false;
    const std::string message =
        test::message_of<InputError>([&] { static_cast<void>(make_datasets(options)); });
    expect_says(message,
                "s.csv has no column for features, only the one column \"" + header + "\"");
    expect_says(message, "separate their cells by commas, semicolons or tabs");
  }
  DataOptions options = options_of(CsvOptions(), {folder.write("s.csv", "w,kind\n1,0\n")});
  options.test_set = false;
  options.files().sample_weights = "w";
  expect_says(test::message_of<InputError>([&] { static_cast<void>(make_datasets(options)); }),
              "s.csv has no column for features, only w, kind.");
}

TEST(DataFiles, TheDecimalSignOfColumnsThatAreNotUsedDoesNotMatter) {
  const ScratchFolder folder;
  DataOptions options =
      options_of(CsvOptions(), {folder.write("t.csv", "version;x;y\n2.5;1,5;0,5\n3.5;2;1,5\n")});
  options.test_set = false;
  options.files().columns.features = {"x"};
  for (const std::vector<std::string>& targets : {{}, std::vector<std::string>{"y"}}) {
    options.files().columns.targets = targets;  // left out: the last column
    const Datasets sets = make_datasets(options, TargetKind::values);
    Batch batch(*sets.train, 2);
    sets.train->load(std::vector<std::int64_t>{0, 1}, batch);
    EXPECT_EQ(batch.inputs().to_vector<float>(), (std::vector<float>{-1, 1}));  // 1.5 and 2
  }
  options.files().sample_weights = "version";
  expect_says(test::message_of<InputError>(
                  [&] { static_cast<void>(make_datasets(options, TargetKind::values)); }),
              "Write all with one of the two");
  options.files().sample_weights = "";
  options.files().columns.features = {};
  expect_says(test::message_of<InputError>(
                  [&] { static_cast<void>(make_datasets(options, TargetKind::values)); }),
              "Write all with one of the two");
}

TEST(DataFiles, WordsAreClassesWhoseNamesAreKept) {
  const ScratchFolder folder;
  const std::string train = folder.write("train.csv", "kind,x,y\ncat,1,2\ndog,3,4\ncat,5,6\n");
  const std::string test = folder.write("test.csv", "kind,x,y\ndog,1,2\n");
  DataOptions options = options_of(CsvOptions(), {train});
  options.files().test_path = {test};
  options.files().columns.targets = {"kind"};
  EXPECT_EQ(target_kind(options), TargetKind::classes);
  const Datasets sets = make_datasets(options);
  EXPECT_EQ(sets.facts.class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(contents_of(*sets.train).second, (std::vector<std::int64_t>{0, 1, 0}));
  EXPECT_EQ(contents_of(*sets.test).second, std::vector<std::int64_t>{1});
  const DataOptions found = as_found(options, sets);
  EXPECT_EQ(found.files().columns.features, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(contents_of(*make_test_set(found, TargetKind::classes).test), contents_of(*sets.test))
      << "what was found makes the same test set alone";
  folder.write("test.csv", "kind,x,y\ncow,1,2\n");
  expect_says(test::message_of<InputError>([&] { static_cast<void>(make_datasets(options)); }),
              "kind is \"cow\", not one of the classes cat, dog");
}

TEST(DataFiles, AnotherNumberOfClassesThanWordsIsRefused) {
  const ScratchFolder folder;
  DataOptions options =
      options_of(CsvOptions(), {folder.write("t.csv", "x,kind\n1,cat\n2,dog\n3,cow\n")});
  options.test_set = false;
  options.files().classes = 2;
  const std::string said =
      test::message_of<InputError>([&] { static_cast<void>(make_datasets(options)); });
  expect_says(said, "data.classes = 2, but column kind of ");
  expect_says(said,
              "t.csv has 3 words as classes: cat, cow, dog. Correct one, or leave "
              "data.classes out.");
  options.files().classes = 3;
  EXPECT_EQ(make_datasets(options).train->classes(), 3);
}

// One unreadable cell would change all labels: "2" sorts after "10" then.
TEST(DataFiles, ADamagedLabelAmongNumbersIsNoNameOfAClass) {
  const ScratchFolder folder;
  DataOptions options = options_of(CsvOptions(), {});
  options.test_set = false;
  const auto refusal = [&](const std::string& text, TargetKind kind = TargetKind::classes) {
    options.path = {folder.write("t.csv", text)};
    return test::message_of<InputError>([&] { static_cast<void>(make_datasets(options, kind)); });
  };
  expect_says(refusal("x,kind\n1,0\n2,\n3,1\n"), "column kind is empty");
  expect_says(refusal("x,kind\n1,cat\n2,\n"), "column kind is empty");
  const std::string damaged = refusal("x,kind\n1,0\n2,10\n3,NA\n");
  expect_says(damaged, "line 4 of");
  expect_says(damaged, "column kind is \"NA\", but line 2 of");
  expect_says(damaged, "data.class_names");
  options.class_names = {"0", "10", "NA"};
  EXPECT_EQ(contents_of(*make_datasets(options).train).second,
            (std::vector<std::int64_t>{0, 1, 2}));
  options.class_names.clear();
  expect_says(refusal("x,y\n1,0.5\n2,half\n", TargetKind::values),
              "column y is \"half\", not a finite number. Repair the line.");
  expect_says(refusal("x,y\n1,one\n2,half\n", TargetKind::values), "not a finite number");
}

TEST(DataFiles, LabelsThatAreAllAmongTheNamesAreNamesInEveryTable) {
  const ScratchFolder folder;
  DataOptions options =
      options_of(CsvOptions(), {folder.write("train.csv", "x,kind\n1,x\n2,7\n3,5\n")});
  options.files().test_path = {folder.write("test.csv", "x,kind\n1,7\n2,5\n")};
  options.class_names = {"5", "7", "x"};
  const Datasets sets = make_datasets(options);
  EXPECT_EQ(contents_of(*sets.train).second, (std::vector<std::int64_t>{2, 1, 0}));
  EXPECT_EQ(contents_of(*sets.test).second, (std::vector<std::int64_t>{1, 0}));
  folder.write("train.csv", "x,kind\n1,1\n2,0\n");
  folder.write("test.csv", "x,kind\n1,0\n");
  options.class_names = {"shirt", "coat"};
  EXPECT_EQ(contents_of(*make_datasets(options).train).second, (std::vector<std::int64_t>{1, 0}));
}

TEST(DataFiles, ATableNeverNumbersItsClassesOtherwiseThanTheTrainingTable) {
  const ScratchFolder folder;
  DataOptions options = options_of(CsvOptions(), {folder.write("train.csv", "x,kind\n1,1\n2,0\n")});
  options.files().test_path = {folder.write("test.csv", "x,kind\n1,1.0\n2,0.0\n")};
  options.class_names = {"1", "0"};
  const auto refusal = [](const auto& f) {
    return test::message_of<InputError>([&] { static_cast<void>(f()); });
  };
  const auto sets = [&] { return make_datasets(options); };
  const std::string other = "kind is \"1.0\", not one of the classes 1, 0";
  expect_says(refusal(sets), other);
  expect_says(refusal(sets), "line 2 of " + options.files().test_path[0]);
  expect_says(refusal([&] { return make_test_set(options, TargetKind::classes); }), other);
  folder.write("test.csv", "x,kind\n1,1\n2,0\n");
  const Datasets named = sets();
  EXPECT_EQ(contents_of(*named.test).second, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(contents_of(*make_test_set(as_found(options, named), TargetKind::classes).test),
            contents_of(*named.test));
  options.class_names.clear();
  folder.write("train.csv", "x,kind\n1,yes\n2,no\n");
  expect_says(refusal(sets), "kind is \"1\", not one of the classes no, yes");
}

TEST(DataFiles, TrainingAndTestSetInDifferentUnitsAreRefused) {
  const ScratchFolder folder;
  fs::create_directories(folder.file("train"));
  fs::create_directories(folder.file("test"));
  DataOptions options = options_of(NpyOptions(), {folder.path()});
  options.mean = options.std = {};
  for (const std::string half : {"train", "test"})
    folder.write(half + "/targets.npy", npy("<f4", "(3,)", counted(3)));
  folder.write("train/features.npy", npy("|u1", "(3, 1)", std::vector<std::uint8_t>{1, 2, 255}));
  folder.write("test/features.npy", npy("<f4", "(3, 1)", counted(3)));
  expect_says(test::message_of<InputError>(
                  [&] { static_cast<void>(make_datasets(options, TargetKind::values)); }),
              "divided by 255");
  folder.write("test/features.npy", npy("|u1", "(3, 1)", std::vector<std::uint8_t>{4, 5, 6}));
  EXPECT_EQ(make_datasets(options, TargetKind::values).test->size(), 3);
}

TEST(DataFiles, TargetsThatAreBytesAreNormalisedInTheirOwnUnits) {
  const ScratchFolder folder;
  fs::create_directories(folder.file("train"));
  DataOptions options = options_of(NpyOptions(), {folder.path()});
  options.test_set = false;
  options.normalise_targets = true;
  options.mean = options.std = options.target_mean = options.target_std = {};
  const std::vector<std::uint8_t> ramp{0, 100, 200};
  // 13 / 255 is not exact: a sum of many has rounding errors, which are not a deviation.
  folder.write("train/features.npy", npy("|u1", "(3, 1)", std::vector<std::uint8_t>{13, 13, 13}));
  folder.write("train/targets.npy", npy("|u1", "(3, 1)", ramp));
  const Datasets sets = make_datasets(options, TargetKind::values);
  EXPECT_EQ(sets.facts.target_mean, std::vector<double>{100});
  EXPECT_NEAR(sets.facts.target_std.at(0), std::sqrt(20000.0 / 3), 1e-9);
  EXPECT_EQ(sets.facts.mean, std::vector<double>{13.0 / 255});
  EXPECT_EQ(sets.facts.std, std::vector<double>{1.0}) << "a constant";
}

TEST(DataFiles, FieldsThatAreTargetsAreNotLeftBehindByAnAugmentation) {
  const ScratchFolder folder;
  fs::create_directories(folder.file("train"));
  DataOptions options = options_of(NpyOptions(), {folder.path()});
  options.test_set = false;
  for (const std::string name : {"features", "targets"})
    folder.write("train/" + name + ".npy", npy("<f4", "(2, 1, 3, 3)", counted(18)));
  EXPECT_EQ(make_datasets(options, TargetKind::values).train->size(), 2);
  options.augment.flip = true;
  expect_says(test::message_of<InputError>(
                  [&] { static_cast<void>(make_datasets(options, TargetKind::values)); }),
              "targets, fields");
  options.augment = {.crop_padding = 1};
  expect_says(test::message_of<InputError>(
                  [&] { static_cast<void>(make_datasets(options, TargetKind::values)); }),
              "targets, fields");
}

TEST(DataFiles, ATableOfValuesNeedsNoNamesOfColumns) {
  const ScratchFolder folder;
  const std::string file = folder.write("t.csv", "x,y,force\n1,2,0.5\n3,4,1.5\n5,6,2.5\n");
  DataOptions options = options_of(CsvOptions(), {file});
  EXPECT_EQ(target_kind(options), TargetKind::values);
  expect_says(test::message_of<InputError>(
                  [&] { static_cast<void>(make_datasets(options, TargetKind::values)); }),
              "needs data.test_path");
  options.test_set = false;
  const Datasets sets = make_datasets(options, TargetKind::values);
  EXPECT_EQ(sets.train->sample_shape(), Shape({2}));
  EXPECT_EQ(sets.train->target_shape(), Shape({}));
  EXPECT_EQ(sets.facts.target, "force");
}

TEST(DataFiles, WeightsOfSamplesStandBesideThem) {
  const ScratchFolder folder;
  DataOptions options =
      options_of(CsvOptions(), {folder.write("t.csv", "x,weight,kind\n1,0.5,0\n2,0,1\n3,2,1\n")});
  options.test_set = false;
  options.files().sample_weights = "weight";
  const Datasets sets = make_datasets(options);
  EXPECT_EQ(sets.sample_weights, (std::vector<double>{0.5, 0, 2}));
  EXPECT_EQ(sets.train->sample_shape(), Shape({1})) << "weights are no features";
  options = options_of(NpyOptions(), {folder.path()});
  options.test_set = false;
  options.files().train_features = "x";
  options.files().train_targets = "y";
  options.files().sample_weights = "w";
  folder.write("x.npy", npy("<f4", "(3, 1)", counted(3)));
  folder.write("y.npy", npy("<f4", "(3,)", counted(3)));
  for (const std::int64_t count : {2, 4}) {  // from another file
    folder.write("w.npy", npy("<f4", fmt::format("({},)", count), counted(count)));
    expect_says(test::message_of<InputError>(
                    [&] { static_cast<void>(make_datasets(options, TargetKind::values)); }),
                "cannot be the weights of 3 samples");
  }
  folder.write("w.npy", npy("<f4", "(3,)", counted(3)));
  EXPECT_EQ(make_datasets(options, TargetKind::values).sample_weights,
            (std::vector<double>{1, 2, 3}));
}

TEST(DataFiles, TheWeightsOfATableAreNoTargetThoughTheyAreItsLastColumn) {
  const ScratchFolder folder;
  const std::string table = folder.write("t.csv", "x,y,force,w\n1,2,7,1\n3,4,8,2\n5,6,9,1\n");
  for (const bool named : {false, true}) {
    DataOptions options = options_of(CsvOptions(), {table});
    options.test_set = false;
    options.files().sample_weights = "w";
    if (named) options.files().columns.features = {"x", "y"};
    const Datasets sets = make_datasets(options, TargetKind::values);
    EXPECT_EQ(sets.facts.target, "force");
    EXPECT_EQ(sets.facts.feature_columns, (std::vector<std::string>{"x", "y"}));
    EXPECT_EQ(sets.sample_weights, (std::vector<double>{1, 2, 1}));
  }
}

TEST(DataFiles, AColumnOfATableHasOneUse) {
  const ScratchFolder folder;
  const std::string table = folder.write("t.csv", "x,y,z\n1,2,3\n4,5,6\n");
  const auto refusal = [&](const Columns& columns, const std::string& weights) {
    DataOptions options = options_of(CsvOptions(), {table});
    options.test_set = false;
    options.files().columns = columns;
    options.files().sample_weights = weights;
    return test::message_of<InputError>(
        [&] { static_cast<void>(make_datasets(options, TargetKind::values)); });
  };
  expect_says(refusal({{"x", "y"}, {"y"}}, ""),
              "\"y\" is named in data.feature_columns and data.target_columns");
  expect_says(refusal({{"x"}, {"z"}}, "x"), "data.feature_columns and data.sample_weights");
  expect_says(refusal({{"x"}, {"z"}}, "z"), "data.target_columns and data.sample_weights");
}

TEST(DataFiles, AFileIsReadOnce) {
  const ScratchFolder folder;
  const std::string one = folder.write("part-1.csv", "x,y\n1,2\n"),
                    two = folder.write("part-2.csv", "x,y\n3,4\n");
  const std::string pattern = folder.path() + "/part-*.csv",
                    roundabout = folder.path() + "/./part-2.csv";
  EXPECT_EQ(files_of({pattern}), (std::vector<fs::path>{one, two}));
  expect_says(test::message_of<InputError>([&] {
                static_cast<void>(files_of({pattern, roundabout}));
              }),
              "part-2.csv is named twice");
  DataOptions options = options_of(CsvOptions(), {pattern});
  options.files().test_path = {roundabout};
  expect_says(test::message_of<InputError>(
                  [&] { static_cast<void>(make_datasets(options, TargetKind::values)); }),
              "part-2.csv is a file of the training set and of the test set");
}

TEST(DataFiles, ATableIsKnownByTheEndingOfItsName) {
  for (const char* name : {"a.csv", "a.CSV", "a.csv.gz", "a.tsv", "b.txt", "c.TSV.GZ"})
    EXPECT_TRUE(is_table(name)) << name;
  for (const char* name : {"a.h5", "csv", "a.csv.h5", "a.npy", "a.gz", "csv.d/a.h5"})
    EXPECT_FALSE(is_table(name)) << name;
}

}  // namespace
}  // namespace lockstep
