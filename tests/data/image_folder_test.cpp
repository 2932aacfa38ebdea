#include <lockstep/data/images/image_folder.hpp>

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <data/idx_files.hpp>
#include <data/image_files.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/data/batches/batch_source.hpp>
#include <lockstep/data/batches/loader.hpp>
#include <lockstep/data/data_options.hpp>
#include <lockstep/data/subset.hpp>
#include <lockstep/deck/deck.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::Bytes;
using test::input_error;
using test::says;

constexpr ImageOptions small{.channels = 1, .size = 2, .resize = 2, .threads = 1};
const Normalisation none{{0.0}, {1.0}};

/// A grey image of one value, 2 x 2.
void write_flat(const fs::path& file, std::uint8_t value) {
  test::write_png(file, 2, 2, Bytes(4, value), {.color_type = 0});
}

/// Classes cat and dog with values 10, 11, 12 and 20, 21, in an order that no listing has.
void write_pets(const fs::path& root) {
  write_flat(root / "dog" / "b.png", 21);
  write_flat(root / "cat" / "c.png", 12);
  write_flat(root / "dog" / "a.png", 20);
  write_flat(root / "cat" / "a.png", 10);
  write_flat(root / "cat" / "below" / "x.PNG", 11);
}

/// The first pixel of each sample, as a byte.
std::vector<float> values(const Dataset& data) {
  Batch batch(data, data.size());
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < data.size(); ++i) all.push_back(i);
  data.load(all, batch);
  EXPECT_EQ(batch.targets().to_vector<std::int64_t>(), data.labels());
  const auto pixels = batch.inputs().to_vector<float>();
  std::vector<float> first;
  const auto each = static_cast<std::size_t>(data.sample_shape().numel());
  for (std::size_t i = 0; i < pixels.size(); i += each) first.push_back(pixels[i] * 255.0F);
  return first;
}

TEST(ImageFolder, ClassesAndSamplesAreInTheOrderOfTheirNames) {
  const test::TemporaryFolder folder;
  write_pets(folder.path());
  folder.write("cat/notes.txt", {1});
  folder.write("cat/.hidden.png", {1});
  write_flat(folder.path() / "cat" / ".ipynb_checkpoints" / "a.png", 13);
  write_flat(folder.path() / "cat" / "below" / ".thumbs" / "deep" / "x.png", 14);
  const ImageFolder data(folder.path(), small, none);
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data.classes(), 2);
  EXPECT_EQ(data.labels(), (std::vector<std::int64_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(data.sample_shape(), Shape({1, 2, 2}));
  EXPECT_EQ(values(data), (std::vector<float>{10, 11, 12, 20, 21}));
}

TEST(ImageFolder, NamesThatAreGivenAreTheOrderOfTheClasses) {
  const test::TemporaryFolder folder;
  write_pets(folder.path());
  const ImageFolder data(folder.path(), small, none, {"dog", "cat"});
  EXPECT_EQ(data.labels(), (std::vector<std::int64_t>{0, 0, 1, 1, 1}));
  EXPECT_TRUE(says(input_error([&] { return ImageFolder(folder.path(), small, none, {"cat"}); }),
                   "dog is none of the 1 classes"));
}

TEST(ImageFolder, ALimitTakesSamplesOfAllClasses) {
  const test::TemporaryFolder folder;
  write_pets(folder.path());
  EXPECT_EQ(values(ImageFolder(folder.path(), small, none, {}, 2)), (std::vector<float>{10, 12}));
  EXPECT_EQ(values(ImageFolder(folder.path(), small, none, {}, 3)),
            (std::vector<float>{10, 11, 20}));
  EXPECT_EQ(ImageFolder(folder.path(), small, none, {}, 50).size(), 5);
}

TEST(ImageFolder, SamplesAreTheSameForAnyNumberOfThreads) {
  const test::TemporaryFolder folder;
  for (std::uint8_t i = 0; i < 20; ++i)
    test::write_png(folder.path() / "a" / (std::to_string(10 + i) + ".png"), 9, 7,
                    Bytes(9 * 7 * 3, i));
  const Normalisation normalisation{{0.1, 0.2, 0.3}, {0.5, 0.6, 0.7}};
  const auto all = [&](std::int64_t threads) {
    const ImageFolder data(folder.path(), {3, 4, 5, threads}, normalisation);
    return values(data);
  };
  const auto one = all(1);
  EXPECT_NEAR(one[19] / 255, (19.0 / 255 - 0.1) / 0.5, 1e-6);
  EXPECT_EQ(one, all(3));
  EXPECT_EQ(one, all(64));
}

TEST(ImageFolder, TrainingCutsEachEpochAnewAndEvaluationTheCentre) {
  const test::TemporaryFolder folder;
  for (const char* name : {"a", "b", "c"})
    test::write_png(folder.path() / "class" / (std::string(name) + ".png"), 16, 16,
                    test::counting(256), {.color_type = 0});
  const auto loaded = [&](const Dataset& data, std::int64_t epoch) {
    Batch batch(data, 3);
    data.load_varied(std::vector<std::int64_t>{2, 0, 1}, epoch, batch);
    return batch.inputs().to_vector<float>();
  };
  const ImageFolder still(folder.path(), {1, 4, 8, 1}, none);
  EXPECT_EQ(loaded(still, 1), loaded(still, 2));
  for (const std::int64_t threads : {1, 3}) {
    const ImageFolder varied(folder.path(), {1, 4, 8, threads, RandomCut{.seed = 1}}, none);
    EXPECT_EQ(values(varied), values(still));
    EXPECT_NE(loaded(varied, 1), loaded(varied, 2));
    EXPECT_EQ(loaded(varied, 1), loaded(varied, 1));
    const Subset held(std::make_shared<ImageFolder>(varied), {1, 2});
    Batch whole(varied, 1), part(held, 1);
    varied.load_varied(std::vector<std::int64_t>{2}, 5, whole);
    held.load_varied(std::vector<std::int64_t>{1}, 5, part);
    EXPECT_EQ(whole.inputs().to_vector<float>(), part.inputs().to_vector<float>());
  }
}

TEST(ImageFolder, OnlyTrainingBatchesAreVaried) {
  const test::TemporaryFolder folder;
  test::write_png(folder.path() / "class" / "a.png", 16, 16, test::counting(256),
                  {.color_type = 0});
  const auto data = std::make_shared<const ImageFolder>(
      folder.path(), ImageOptions{1, 4, 8, 1, RandomCut{.seed = 1}}, none);
  Batch batch(*data, 1);
  const auto first = [](Loader&& loader) {
    loader.start_epoch(3);
    return loader.next().inputs().to_vector<float>();
  };
  data->load(std::vector<std::int64_t>{0}, batch);
  EXPECT_EQ(first(Loader(data, std::make_unique<EvalBatches>(EvalPlan(1, 1, 1), 0))),
            batch.inputs().to_vector<float>());
  data->load_varied(std::vector<std::int64_t>{0}, 3, batch);
  EXPECT_EQ(first(Loader(data, std::make_unique<TrainBatches>(BatchPlan(1, 1, 1), 0, 0))),
            batch.inputs().to_vector<float>());
}

TEST(ImageFolder, ADamagedFileIsNamedWhateverThreadMeetsIt) {
  const test::TemporaryFolder folder;
  write_pets(folder.path());
  folder.write("cat/below/x.PNG", {1, 2, 3});
  folder.write("dog/b.png", {1, 2, 3});
  for (const std::int64_t threads : {1, 4}) {
    const ImageFolder data(folder.path(), {1, 2, 2, threads}, none);
    const auto message = input_error([&] { return values(data); });
    EXPECT_TRUE(says(message, "cat/below/x.PNG"));
  }
}

TEST(ImageFolder, FoldersWithoutImagesAreRefused) {
  const test::TemporaryFolder folder;
  const auto message = [&] {
    return input_error([&] { return ImageFolder(folder.path(), small, none); });
  };
  EXPECT_TRUE(says(message(), "has no folders of classes"));
  fs::create_directories(folder.path() / "bird");
  write_pets(folder.path());
  EXPECT_TRUE(says(message(), "class bird"));
  fs::remove_all(folder.path());
  EXPECT_TRUE(says(message(), "cannot be read"));
  fs::create_directories(folder.path());
}

TEST(ImageFolder, OptionsThatDoNotFitAreRefused) {
  const test::TemporaryFolder folder;
  write_pets(folder.path());
  const auto message = [&](const ImageOptions& options) {
    return input_error([&] { return ImageFolder(folder.path(), options, none); });
  };
  EXPECT_TRUE(says(message({1, 2, 2, 1, RandomCut{.scale = {0.5, 0.25}}}), "data.augment_scale"));
  EXPECT_TRUE(says(message({1, 2, 2, 1, RandomCut{.ratio = {1}}}), "data.augment_ratio"));
  EXPECT_TRUE(says(message({2, 2, 2, 1}), "data.image_channels is 2"));
  EXPECT_TRUE(says(message({1, 3, 2, 1}), "data.image_resize = 2 is smaller"));
  EXPECT_TRUE(says(message({1, 2, 2, 0}), "data.image_threads is 0"));
}

DataOptions from_deck(const fs::path& root, const std::string& more = "") {
  Deck deck = Deck::parse(
      "[data]\nkind = \"image_folder\"\nimage_size = 2\nimage_resize = 2\n"
      "image_channels = 1\nmean = [0]\nstd = [1]\npath = \"" +
          root.string() + "\"\n" + more,
      "test.toml");
  auto options = deck.read<DataOptions>("data");
  deck.check_all_read();
  return options;
}

TEST(ImageFolderOptions, KeysReachTheirFields) {
  Deck deck = Deck::parse(
      "[data]\nkind = \"image_folder\"\nimage_size = 5\nimage_resize = 6\nimage_channels = 1\n"
      "augment_resized_crop = true\naugment_scale = [0.5, 0.75]\naugment_ratio = [0.25, 4]\n"
      "image_threads = 7\ntest_path = \"there\"\nimage_listing = \"ab\"",
      "test.toml");
  const auto all = deck.read<DataOptions>("data");
  const auto* options = all.kind.get_if<ImageFolderOptions>();
  ASSERT_TRUE(options);
  EXPECT_EQ(options->images.size, 5);
  EXPECT_EQ(options->images.resize, 6);
  EXPECT_EQ(options->images.channels, 1);
  EXPECT_EQ(options->images.threads, 7);
  EXPECT_TRUE(options->resized_crop);
  EXPECT_EQ(options->random_cut.scale, (std::vector{0.5, 0.75}));
  EXPECT_EQ(options->random_cut.ratio, (std::vector{0.25, 4.0}));
  EXPECT_EQ(options->test_path, "there");
  EXPECT_EQ(options->listing, "ab");
}

TEST(ImageFolderOptions, TrainAndValAreTheTwoSetsAndShareTheClasses) {
  const test::TemporaryFolder folder;
  write_pets(folder.path() / "train");
  write_flat(folder.path() / "val" / "cat" / "v.png", 30);
  write_flat(folder.path() / "val" / "dog" / "v.png", 31);
  write_flat(folder.path() / "test" / "unlabelled" / "v.png", 32);
  const DataOptions options = from_deck(folder.path());
  const Datasets sets = make_datasets(options);
  EXPECT_EQ(sets.train->size(), 5);
  EXPECT_EQ(values(*sets.test), (std::vector<float>{30, 31}));
  EXPECT_EQ(sets.facts.class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(sets.facts.divisor, 255);
  const DataOptions found = as_found(options, sets);
  EXPECT_EQ(values(*make_test_set(found, TargetKind::classes).test), (std::vector<float>{30, 31}));
}

TEST(ImageFolderOptions, OneFolderIsSplitByAFraction) {
  const test::TemporaryFolder folder;
  write_pets(folder.path());
  EXPECT_TRUE(says(input_error([&] { return make_datasets(from_deck(folder.path())); }),
                   "data.test_set = false"));
  const Datasets sets =
      make_datasets(from_deck(folder.path(), "test_set = false\nvalidation_fraction = 0.4"));
  EXPECT_EQ(sets.train->size(), 3);
  EXPECT_EQ(sets.validation->size(), 2);
  EXPECT_EQ(sets.facts.listing, ImageFolder(folder.path(), small, none).listing_hash());
}

TEST(ImageFolderOptions, ARunRefusesOtherFilesThanItNoted) {
  const test::TemporaryFolder folder;
  write_pets(folder.path());
  const DataOptions options = from_deck(folder.path(), "test_set = false");
  const DataOptions found = as_found(options, make_datasets(options));
  EXPECT_EQ(make_datasets(found).train->size(), 5);
  write_flat(folder.path() / "cat" / "later.png", 1);
  EXPECT_TRUE(says(input_error([&] { return make_datasets(found); }), "data.image_listing"));
}

TEST(ImageFolderOptions, ValuesAndTokensAreRefused) {
  const test::TemporaryFolder folder;
  write_pets(folder.path());
  const DataOptions options = from_deck(folder.path(), "test_set = false");
  EXPECT_TRUE(says(input_error([&] { return make_datasets(options, TargetKind::values); }),
                   "program classify"));
  EXPECT_FALSE(input_error([&] { return make_datasets(options, TargetKind::tokens); }).empty());
  DataOptions nowhere = options;
  nowhere.path = {"auto"};
  EXPECT_TRUE(says(input_error([&] { return make_datasets(nowhere); }), "data.path"));
}

}  // namespace
}  // namespace lockstep
