#include <lockstep/data/data_options.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include <lockstep/base/error.hpp>
#include <lockstep/data/fashion_mnist.hpp>
#include <lockstep/data/hdf5_dataset.hpp>
#include <lockstep/data/subset.hpp>
#include <lockstep/data/token_dataset.hpp>

namespace lockstep {
namespace {

std::int64_t limited(std::int64_t samples, std::int64_t limit) {
  return limit > 0 ? std::min(samples, limit) : samples;
}

/// What the deck says, and `otherwise` where it is silent.
Normalisation chosen(const DataOptions& options, Normalisation otherwise) {
  if (!options.mean.empty()) otherwise.mean = options.mean;
  if (!options.std.empty()) otherwise.std = options.std;
  return otherwise;
}

/// What is known of images that are bytes.
DataFacts facts_of_images(const DataOptions& options, const Normalisation& normalisation) {
  return {.divisor = 255,
          .mean = normalisation.mean,
          .std = normalisation.std,
          .class_names = options.class_names};
}

std::shared_ptr<const Dataset> image_set(const DataOptions& options,
                                         const Normalisation& normalisation, Split split) {
  if (options.kind == DataKind::fashion_mnist) {
    return load_fashion_mnist(find_fashion_mnist(options.path), split, normalisation,
                              split == Split::train ? options.train_limit : options.test_limit);
  }
  SyntheticOptions synthetic = options.synthetic;
  synthetic.samples = limited(synthetic.samples, options.train_limit);
  synthetic.test_samples = limited(synthetic.test_samples, options.test_limit);
  return make_synthetic(synthetic, split, normalisation);
}

/// The training set's file.
const std::string& hdf5_file(const DataOptions& options) {
  if (options.path != "auto") return options.path;
  throw InputError(
      "data.kind = \"hdf5\" needs data.path, the file, but it is \"auto\". Set it in the deck or "
      "with --set 'data.path=\"FILE\"'.");
}

void expect_as_they_are(const DataOptions& options) {
  const AugmentOptions& augment = options.augment;
  if (options.mean.empty() && options.std.empty() && augment.crop_padding == 0 && !augment.flip)
    return;
  throw InputError(
      "data.indices = true leaves features as they are, but data.mean, data.std or an "
      "augmentation would change them. Leave out one or the other.");
}

/// "parameters" of "train/parameters".
std::string leaf_of(const std::string& name) { return name.substr(name.find_last_of('/') + 1); }

Hdf5Samples open_split(const DataOptions& options, TargetKind kind, Split split) {
  const Hdf5Options& o = options.hdf5;
  const bool train = split == Split::train;
  const std::string& file = hdf5_file(options);
  return open_hdf5_samples({.file = train || o.test_path.empty() ? file : o.test_path,
                            .features = train ? o.train_features : o.test_features,
                            .targets = train ? o.train_targets : o.test_targets,
                            .cache_bytes = o.cache_mib << 20U},
                           kind, train ? options.train_limit : options.test_limit);
}

/// What the options leave open, of the training set.
DataOptions measured(DataOptions options, TargetKind kind, const Hdf5Samples& train) {
  if (!options.hdf5.indices && (options.mean.empty() || options.std.empty())) {
    const Normalisation found = chosen(options, measure_normalisation(*train.features, train.size));
    options.mean = found.mean;
    options.std = found.std;
  }
  if (kind == TargetKind::classes) {
    if (options.hdf5.classes == 0) options.hdf5.classes = count_classes(train);
  } else if (options.normalise_targets &&
             (options.target_mean.empty() || options.target_std.empty())) {
    const Normalisation found = measure_normalisation(*train.targets, train.size);
    if (options.target_mean.empty()) options.target_mean = found.mean;
    if (options.target_std.empty()) options.target_std = found.std;
  }
  return options;
}

/// What the options tell, who may be told of data like `samples`.
DataFacts facts_of(const DataOptions& options, const Hdf5Samples& samples) {
  DataFacts facts{.input = leaf_of(options.hdf5.train_features),
                  .target = leaf_of(options.hdf5.train_targets),
                  .divisor = samples.features->bytes() && !options.hdf5.indices ? 255.0 : 1.0,
                  .mean = options.mean,
                  .std = options.std,
                  .class_names = options.class_names};
  if (options.normalise_targets) {
    facts.target_mean = options.target_mean;
    facts.target_std = options.target_std;
  }
  return facts;
}

std::shared_ptr<const Dataset> hdf5_set(const DataOptions& options, TargetKind kind,
                                        const Hdf5Samples& samples) {
  const std::int64_t classes = kind == TargetKind::classes ? options.hdf5.classes : 0;
  if (classes > 0) expect_classes(samples, classes);
  std::optional<Normalisation> normalisation;
  if (!options.hdf5.indices) normalisation = chosen(options, {});
  if (options.hdf5.stream)
    return std::make_shared<const Hdf5Dataset>(samples, classes, normalisation);
  return load_hdf5_samples(samples, classes, normalisation);
}

void expect_class_names(const DataOptions& options, const Dataset& data) {
  const auto names = std::ssize(options.class_names);
  if (names == 0 || names == data.classes()) return;
  throw InputError(fmt::format(
      "data.class_names has {} names, but the data have {} classes. Give one a class, or none.",
      names, data.classes()));
}

void expect_alike(const char* what, const Shape& train, const Shape& test,
                  const std::string& path) {
  if (train == test) return;
  throw InputError(fmt::format(
      "the data in {} do not belong together: training {} are {}, test {} {}. Get fresh copies of "
      "the files, or name other data sets.",
      path, what, to_string(train), what, to_string(test)));
}

/// What a zero, a black pixel, becomes by the normalisation: one value, or one a channel.
std::vector<float> zero_input(const DataFacts& facts) {
  const Normalisation none{{0.0}, {1.0}};
  const std::vector<double>&mean = facts.mean.empty() ? none.mean : facts.mean,
        &std = facts.std.empty() ? none.std : facts.std;
  std::vector<float> zero(std::max(mean.size(), std.size()));
  for (std::size_t c = 0; c < zero.size(); ++c) {
    const auto of_channel = [&](const std::vector<double>& values) {
      return static_cast<float>(values[values.size() == 1 ? 0 : c]);
    };
    zero[c] = (0.0F - of_channel(mean)) / of_channel(std);
  }
  return zero;
}

void expect_kind(const DataOptions& options, TargetKind kind) {
  const bool tokens = options.kind == DataKind::tokens;
  if (tokens && kind != TargetKind::tokens) {
    throw InputError(
        "data.kind = \"tokens\" is for a language model, which the program gpt trains. Use that, "
        "or "
        "other data.");
  }
  if (!tokens && kind == TargetKind::tokens) {
    throw InputError(
        "a language model learns tokens: use data.kind = \"tokens\" and data.path, or another "
        "program than gpt.");
  }
  if (kind != TargetKind::values || options.kind == DataKind::hdf5) return;
  throw InputError(
      "these data have classes, not values to be fitted. Use data.kind = \"hdf5\", or the "
      "program "
      "classify.");
}

/// The folder of data.path.
std::filesystem::path token_folder(const DataOptions& options) {
  if (options.path == "auto") {
    throw InputError(
        "data.kind = \"tokens\" needs data.path, a folder of token files or one of them, but it is "
        "\"auto\". Make them with `gpt tokens TEXT --output FOLDER`, and set it in the deck or "
        "with "
        "--set 'data.path=\"FOLDER\"'.");
  }
  const std::filesystem::path path = options.path;
  return std::filesystem::is_directory(path) ? path : path.parent_path();
}

/// What the deck, or else the folder, says of the tokenizer.
TokenizerChoice tokenizer_of(const DataOptions& options) {
  if (options.tokens.tokenizer.empty()) return read_tokenizer_choice(token_folder(options));
  return {options.tokens.tokenizer, options.class_names};
}

std::vector<std::filesystem::path> token_files_of(const DataOptions& options, Split split) {
  constexpr std::array<std::string_view, 1> train{"train"};
  constexpr std::array<std::string_view, 2> test{"test", "val"};
  const std::string& test_path = options.hdf5.test_path;
  const bool is_train = split == Split::train;
  std::vector<std::filesystem::path> files;
  if (is_train) {
    files = token_files(options.path, train);
  } else if (!test_path.empty() || std::filesystem::is_directory(options.path)) {
    files = token_files(test_path.empty() ? options.path : test_path, test);
  }
  if (!files.empty()) return files;
  throw InputError(fmt::format(
      "{} holds no token files of the {} set: their names end in .bin and say {}. {}", options.path,
      is_train ? "training" : "test", is_train ? "\"train\"" : "\"test\" or \"val\"",
      is_train ? "Make them with `gpt tokens`, or name one file as data.path."
               : "Name one with data.test_path, or set data.test_set = false."));
}

std::int64_t vocabulary_of(const DataOptions& options, const TokenizerChoice& choice,
                           const std::vector<std::filesystem::path>& files) {
  if (options.tokens.vocabulary > 0) return options.tokens.vocabulary;
  std::int64_t largest = 0;
  for (const auto& file : files) largest = std::max(largest, TokenFile(file).vocabulary());
  if (largest > 0) return largest;
  if (choice.kind.empty()) {
    throw InputError(fmt::format(
        "neither the token files of {} nor a tokenizer.json beside them say how many different "
        "tokens there may be. Set data.vocabulary; GPT-2's is 50257.",
        options.path));
  }
  return make_tokenizer(choice, token_folder(options))->vocabulary();
}

std::shared_ptr<const Dataset> token_set(const DataOptions& options,
                                         const std::vector<std::filesystem::path>& files,
                                         std::int64_t limit, std::int64_t vocabulary) {
  return std::make_shared<const TokenDataset>(files, options.tokens.context, vocabulary, limit);
}

DataFacts facts_of_tokens(const TokenizerChoice& choice) {
  return {.input = "tokens",
          .target = "next token",
          .class_names = choice.characters,
          .tokenizer = choice.kind};
}

Datasets token_sets(const DataOptions& options) {
  const TokenizerChoice choice = tokenizer_of(options);
  const auto files = token_files_of(options, Split::train);
  const std::int64_t vocabulary = vocabulary_of(options, choice, files);
  Datasets sets{.train = token_set(options, files, options.train_limit, vocabulary),
                .test = {},
                .augmentation = {},
                .facts = facts_of_tokens(choice)};
  if (options.test_set) {
    sets.test =
        token_set(options, token_files_of(options, Split::test), options.test_limit, vocabulary);
  }
  return sets;
}

void hold_back_for_validation(double fraction, Datasets& sets) {
  if (fraction == 0) return;
  auto [train, validation] = split_for_validation(sets.train->size(), fraction);
  sets.validation = std::make_shared<const Subset>(sets.train, std::move(validation));
  sets.train = std::make_shared<const Subset>(sets.train, std::move(train));
}

}  // namespace

TargetKind target_kind(const DataOptions& options) {
  if (options.kind == DataKind::tokens) return TargetKind::tokens;
  if (options.kind != DataKind::hdf5) return TargetKind::classes;
  const Hdf5Array targets(hdf5_file(options), options.hdf5.train_targets);
  return targets.integers() ? TargetKind::classes : TargetKind::values;
}

Datasets make_datasets(const DataOptions& options, TargetKind kind, std::uint64_t seed) {
  expect_kind(options, kind);
  Datasets sets;
  if (options.kind == DataKind::tokens) {
    sets = token_sets(options);
    hold_back_for_validation(options.validation_fraction, sets);
    return sets;
  }
  if (options.kind == DataKind::hdf5) {
    const Hdf5Samples train = open_split(options, kind, Split::train);
    std::optional<Hdf5Samples> test;
    if (options.test_set) test = open_split(options, kind, Split::test);
    if (options.hdf5.indices) expect_as_they_are(options);
    const DataOptions found = measured(options, kind, train);
    sets = {.train = hdf5_set(found, kind, train),
            .test = test ? hdf5_set(found, kind, *test) : nullptr,
            .augmentation = {},
            .facts = facts_of(found, train)};
  } else {
    const Normalisation normalisation = chosen(options, {});
    sets = {.train = image_set(options, normalisation, Split::train),
            .test = options.test_set ? image_set(options, normalisation, Split::test) : nullptr,
            .augmentation = {},
            .facts = facts_of_images(options, normalisation)};
  }
  if (sets.test) {
    expect_alike("samples", sets.train->sample_shape(), sets.test->sample_shape(), options.path);
    expect_alike("targets", sets.train->target_shape(), sets.test->target_shape(), options.path);
  }
  expect_class_names(options, *sets.train);
  sets.augmentation =
      make_augmentation(options.augment, sets.train->sample_shape(), zero_input(sets.facts), seed);
  hold_back_for_validation(options.validation_fraction, sets);
  return sets;
}

Datasets make_test_set(const DataOptions& options, TargetKind kind) {
  expect_kind(options, kind);
  if (options.kind == DataKind::tokens) {
    const TokenizerChoice choice = tokenizer_of(options);
    return {.train = {},
            .test = token_set(options, token_files_of(options, Split::test), options.test_limit,
                              options.tokens.vocabulary),
            .augmentation = {},
            .facts = facts_of_tokens(choice)};
  }
  if (options.kind != DataKind::hdf5) {
    const Normalisation normalisation = chosen(options, {});
    return {.train = {},
            .test = image_set(options, normalisation, Split::test),
            .augmentation = {},
            .facts = facts_of_images(options, normalisation)};
  }
  const Hdf5Samples test = open_split(options, kind, Split::test);
  return {.train = {},
          .test = hdf5_set(options, kind, test),
          .augmentation = {},
          .facts = facts_of(options, test)};
}

std::unique_ptr<Tokenizer> make_tokenizer(const DataOptions& options) {
  const TokenizerChoice choice = tokenizer_of(options);
  if (choice.kind.empty()) {
    throw InputError(fmt::format(
        "the tokenizer of {} is not known: there is no tokenizer.json. Set data.tokenizer to bytes "
        "or gpt2, whose vocab.json and merges.txt then stand there.",
        options.path));
  }
  return make_tokenizer(choice, choice.kind == "gpt2" ? token_folder(options) : "");
}

DataOptions as_found(DataOptions options, const Datasets& sets) {
  if (options.kind == DataKind::tokens) {
    options.tokens.vocabulary = sets.train->classes();
    options.tokens.tokenizer = sets.facts.tokenizer;
    options.class_names = sets.facts.class_names;
    return options;
  }
  options.mean = sets.facts.mean;
  options.std = sets.facts.std;
  if (options.normalise_targets) {
    options.target_mean = sets.facts.target_mean;
    options.target_std = sets.facts.target_std;
  }
  if (options.kind == DataKind::hdf5) options.hdf5.classes = sets.train->classes();
  return options;
}

}  // namespace lockstep
