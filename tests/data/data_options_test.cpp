#include <lockstep/data/data_options.hpp>

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <data/idx_files.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/data/tensor_dataset.hpp>
#include <lockstep/deck/deck.hpp>

namespace lockstep {
namespace {

DataOptions from_deck(const std::string& toml) {
  Deck deck = Deck::parse("[data]\n" + toml, "test.toml");
  auto options = deck.read<DataOptions>("data");
  deck.check_all_read();
  return options;
}

/// The options of the kind that was read.
template <class Options>
const Options& own(const DataOptions& all) {
  const auto* options = all.kind.get_if<Options>();
  if (!options) throw Error(all.kind.name());
  return *options;
}

TEST(DataOptions, DefaultsAreFashionMnistAsPyTorchsExampleNormalisesIt) {
  const auto options = from_deck("");
  EXPECT_EQ(options.kind.name(), "fashion_mnist");
  EXPECT_EQ(options.path, std::vector<std::string>{"auto"});
  EXPECT_TRUE(options.mean.empty());
  EXPECT_EQ(options.normalisation(mnist_normalisation()).mean, std::vector{0.1307});
  EXPECT_EQ(options.normalisation(mnist_normalisation()).std, std::vector{0.3081});
  EXPECT_TRUE(options.shuffle.on);
  EXPECT_EQ(options.shuffle.window, 0);
  EXPECT_EQ(options.prefetch, 2);
}

TEST(DataOptions, EveryKeyOfAllKindsReachesItsField) {
  const auto o = from_deck(R"(
path = "/data"
mean = [0.5, 0.75]
std = [0.25]
normalise_targets = true
target_mean = [0.125]
target_std = [4, 5]
class_names = ["cat", "dog"]
train_limit = 11
validation_fraction = 0.25
test_set = false
test_limit = 12
shuffle = false
shuffle_window = 18
augment_crop_padding = 19
augment_flip = true
prefetch = 3
)");
  EXPECT_EQ(o.path, std::vector<std::string>{"/data"});
  EXPECT_EQ(o.mean, (std::vector{0.5, 0.75}));
  EXPECT_EQ(o.std, std::vector{0.25});
  EXPECT_TRUE(o.normalise_targets);
  EXPECT_EQ(o.target_mean, std::vector{0.125});
  EXPECT_EQ(o.target_std, (std::vector{4.0, 5.0}));
  EXPECT_EQ(o.class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(o.train_limit, 11);
  EXPECT_EQ(o.validation_fraction, 0.25);
  EXPECT_FALSE(o.test_set);
  EXPECT_EQ(o.test_limit, 12);
  EXPECT_FALSE(o.shuffle.on);
  EXPECT_EQ(o.shuffle.window, 18);
  EXPECT_EQ(o.prefetch, 3);
  EXPECT_EQ(o.augment.crop_padding, 19);
  EXPECT_TRUE(o.augment.flip);
}

TEST(DataOptions, EveryKeyOfAKindReachesItsField) {
  const auto synthetic = from_deck(R"(
kind = "synthetic"
synthetic_samples = 13
synthetic_test_samples = 14
synthetic_classes = 15
synthetic_image_size = 16
synthetic_noise = 0.75
synthetic_seed = 17
synthetic_channels = 20
)");
  const auto& generated = own<SyntheticOptions>(synthetic);
  EXPECT_EQ(generated.samples, 13);
  EXPECT_EQ(generated.test_samples, 14);
  EXPECT_EQ(generated.classes, 15);
  EXPECT_EQ(generated.image_size, 16);
  EXPECT_EQ(generated.noise, 0.75);
  EXPECT_EQ(generated.seed, 17);
  EXPECT_EQ(generated.channels, 20);

  for (const std::string name : {"hdf5", "npy"}) {
    const auto all = from_deck("kind = '" + name + R"('
train_features = "a"
train_targets = "b"
test_features = "c"
test_targets = "d"
test_path = "e"
classes = 21
indices = true
stream = true
other_features = ["i"]
sample_weights = "j"
)");
    EXPECT_EQ(all.kind.name(), name);
    const FileOptions& o = all.files();
    EXPECT_EQ(o.train_features, "a");
    EXPECT_EQ(o.train_targets, "b");
    EXPECT_EQ(o.test_features, "c");
    EXPECT_EQ(o.test_targets, "d");
    EXPECT_EQ(o.test_path, std::vector<std::string>{"e"});
    EXPECT_EQ(o.classes, 21);
    EXPECT_TRUE(o.indices);
    EXPECT_TRUE(o.stream);
    EXPECT_EQ(o.other_features, std::vector<std::string>{"i"});
    EXPECT_EQ(o.sample_weights, "j");
  }
  const auto hdf5 = from_deck("kind = 'hdf5'\nallow_external = true\ncache_mib = 22\n");
  EXPECT_TRUE(hdf5.files().allow_external);
  EXPECT_EQ(hdf5.files().cache_mib, 22);

  const auto csv = from_deck(R"(
kind = "csv"
header = false
feature_columns = ["f", "g"]
target_columns = "h"
classes = 21
indices = true
test_path = "e"
sample_weights = "j"
)");
  static_cast<void>(own<CsvOptions>(csv));
  EXPECT_EQ(csv.files().header, CsvHeader::no);
  EXPECT_EQ(csv.files().columns.features, (std::vector<std::string>{"f", "g"}));
  EXPECT_EQ(csv.files().columns.targets, std::vector<std::string>{"h"});
  EXPECT_EQ(csv.files().classes, 21);
  EXPECT_TRUE(csv.files().indices);
  EXPECT_EQ(csv.files().test_path, std::vector<std::string>{"e"});
  EXPECT_EQ(csv.files().sample_weights, "j");

  const auto tokens = from_deck(R"(
kind = "tokens"
context = 21
vocabulary = 22
tokenizer = "gpt2"
test_path = "e"
)");
  const auto& of_tokens = own<TokenOptions>(tokens);
  EXPECT_EQ(of_tokens.context, 21);
  EXPECT_EQ(of_tokens.vocabulary, 22);
  EXPECT_EQ(of_tokens.tokenizer, "gpt2");
  EXPECT_EQ(of_tokens.test_path, std::vector<std::string>{"e"});
}

TEST(DataOptions, AKeyOfAnotherKindIsAnErrorThatNamesTheKind) {
  const auto message =
      test::input_error([] { return from_deck("kind = 'csv'\ntokenizer = 'bytes'\n"); });
  EXPECT_EQ(message,
            "test.toml:3: data.tokenizer is a key of data.kind = \"tokens\", but data.kind is "
            "\"csv\". Remove the key, or choose that kind.");
}

TEST(DataOptions, ValuesOutOfRangeAreRefused) {
  for (const char* toml :
       {"kind = \"cifar\"", "std = [0.0]", "std = [-1.0]", "shuffle_window = -1",
        "augment_crop_padding = -1", "kind = 'npy'\nclasses = -1", "kind = 'hdf5'\ncache_mib = 0",
        "train_limit = -1", "test_limit = -1", "prefetch = 0"}) {
    EXPECT_THROW(from_deck(toml), InputError) << toml;
  }
  for (const char* line :
       {"synthetic_channels = 0", "synthetic_samples = 0", "synthetic_test_samples = 0",
        "synthetic_classes = 1", "synthetic_classes = 257", "synthetic_image_size = 0",
        "synthetic_noise = 1.5"}) {
    const auto message = test::input_error(
        [&] { return from_deck(std::string("kind = 'synthetic'\n").append(line)); });
    EXPECT_NE(message.find("is out of range"), std::string::npos) << message;
  }
}

TEST(MakeDatasets, SyntheticNeedsNoFiles) {
  DataOptions options;
  options.kind = SyntheticOptions();
  options.path = {"/no/such/folder"};
  const auto sets = make_datasets(options);
  EXPECT_EQ(sets.train->size(), 2048);
  EXPECT_EQ(sets.test->size(), 512);
}

TEST(MakeDatasets, LimitsCutBothKinds) {
  const test::TemporaryFolder folder;
  test::write_mnist_files(folder, 20, 10);
  DataOptions options;
  options.path = {folder.path().string()};
  options.train_limit = 7;
  options.test_limit = 3;
  for (const char* kind : {"fashion_mnist", "synthetic"}) {
    options.kind = DataKind::named(kind);
    const auto sets = make_datasets(options);
    EXPECT_EQ(sets.train->size(), 7);
    EXPECT_EQ(sets.test->size(), 3);
  }
}

TEST(MakeDatasets, SplitsOfDifferentImageSizesAreRefused) {
  const test::TemporaryFolder folder;
  test::write_mnist_files(folder, 20, 10, 4, 3);
  folder.write("t10k-images-idx3-ubyte", test::idx({10, 3, 4}, test::counting(120)));
  DataOptions options;
  options.path = {folder.path().string()};
  const auto message = test::input_error([&] { return make_datasets(options); });
  EXPECT_NE(message.find("training samples are [1, 4, 3], test samples [1, 3, 4]"),
            std::string::npos)
      << message;
}

/// Values that are twice their inputs.
struct DoublesOptions {
  std::int64_t samples = 4;

  [[nodiscard]] Datasets make(const DataOptions& all, TargetKind, Sets wanted) const {
    const auto half = [&] {
      std::vector<float> x, y;
      for (std::int64_t i = 0; i < samples; ++i) {
        x.push_back(static_cast<float>(i));
        y.push_back(static_cast<float>(2 * i));
      }
      return std::make_shared<const TensorDataset>(Tensor::from(x, {samples, 1}),
                                                   Tensor::from(y, {samples, 1}), 0, "doubles");
    };
    return {.train = wanted == Sets::test ? nullptr : half(),
            .test = all.test_set ? half() : nullptr,
            .augmentation = {}};
  }
};
void declare(DeckTable& table, DoublesOptions& options) {
  table.key("samples", options.samples, {.doc = "of each half", .min = 1});
}

TEST(DataOptions, OfOnesOwnAreAKindOfDecksOnceTheyAreRegistered) {
  static const bool once = [] {
    register_data<DoublesOptions>("doubles", "values that are twice their inputs");
    return true;
  }();
  static_cast<void>(once);
  const auto options =
      from_deck("kind = 'doubles'\nsamples = 10\nvalidation_fraction = 0.2\ntest_set = false");
  EXPECT_EQ(target_kind(options), TargetKind::values);
  const auto sets = make_datasets(options, TargetKind::values);
  EXPECT_EQ(sets.train->size(), 8);
  EXPECT_EQ(sets.validation->size(), 2);
  EXPECT_EQ(sets.test, nullptr);
  const auto message = test::input_error([&] { return make_datasets(options); });
  EXPECT_NE(message.find("have values to fit, not classes"), std::string::npos) << message;
  EXPECT_THROW(register_data<DoublesOptions>("doubles", "again"), Error);
}

}  // namespace
}  // namespace lockstep
