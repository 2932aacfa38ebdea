#include <lockstep/data/data_options.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include <lockstep/base/error.hpp>
#include <lockstep/data/data_files.hpp>
#include <lockstep/data/fashion_mnist.hpp>
#include <lockstep/data/streamed_dataset.hpp>
#include <lockstep/data/subset.hpp>
#include <lockstep/data/weighted_draws.hpp>

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

const std::string& only_folder(const DataOptions& options) {
  if (options.path.size() == 1) return options.path[0];
  throw InputError(
      fmt::format("data.path names {} folders, but Fashion-MNIST is in one.", options.path.size()));
}

std::shared_ptr<const Dataset> image_set(const DataOptions& options,
                                         const Normalisation& normalisation, Split split) {
  if (options.kind == DataKind::fashion_mnist) {
    return load_fashion_mnist(find_fashion_mnist(only_folder(options)), split, normalisation,
                              split == Split::train ? options.train_limit : options.test_limit);
  }
  SyntheticOptions synthetic = options.synthetic;
  synthetic.samples = limited(synthetic.samples, options.train_limit);
  synthetic.test_samples = limited(synthetic.test_samples, options.test_limit);
  return make_synthetic(synthetic, split, normalisation);
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

StoredSamples open_split(const DataFiles& files, const DataOptions& options, TargetKind kind,
                         Split split) {
  return pair_samples(files.features(options), files.targets(options), kind,
                      split == Split::train ? options.train_limit : options.test_limit);
}

/// The test set's, of a run that has a training set too.
StoredSamples open_test_split(const DataOptions& options, const DataOptions& named,
                              TargetKind kind) {
  try {
    return open_split(DataFiles(options, Split::test), named, kind, Split::test);
  } catch (const InputError& error) {
    if (options.kind == DataKind::csv || !options.files.test_path.empty()) throw;
    throw InputError(fmt::format(
        "{} (Data without a test set are read with data.test_set = false.)", error.what()));
  }
}

/// What the options leave open, of the training set.
DataOptions measured(DataOptions options, TargetKind kind, const StoredSamples& train) {
  if (!options.files.indices && (options.mean.empty() || options.std.empty())) {
    const Normalisation found = chosen(options, measure_normalisation(*train.features, train.size));
    options.mean = found.mean;
    options.std = found.std;
  }
  if (kind == TargetKind::classes) {
    if (options.files.classes == 0) options.files.classes = count_classes(train);
  } else if (options.normalise_targets &&
             (options.target_mean.empty() || options.target_std.empty())) {
    const Normalisation found = measure_normalisation(*train.targets, train.size);
    if (options.target_mean.empty()) options.target_mean = found.mean;
    if (options.target_std.empty()) options.target_std = found.std;
  }
  return options;
}

/// What the options tell, who may be told of data like `samples`.
DataFacts facts_of(const DataOptions& options, const StoredSamples& samples) {
  const Columns& columns = options.files.columns;
  const bool one_target = columns.targets.size() == 1;
  DataFacts facts{.input = leaf_of(options.files.train_features),
                  .target = one_target ? columns.targets[0] : leaf_of(options.files.train_targets),
                  .divisor = samples.features->bytes() && !options.files.indices ? 255.0 : 1.0,
                  .mean = options.mean,
                  .std = options.std,
                  .class_names = options.class_names,
                  .feature_columns = columns.features,
                  .target_columns = columns.targets};
  if (options.normalise_targets) {
    facts.target_mean = options.target_mean;
    facts.target_std = options.target_std;
  }
  return facts;
}

std::shared_ptr<const Dataset> file_set(const DataOptions& options, TargetKind kind,
                                        const StoredSamples& samples) {
  const std::int64_t classes = kind == TargetKind::classes ? options.files.classes : 0;
  if (classes > 0) expect_classes(samples, classes);
  std::optional<Normalisation> normalisation;
  if (!options.files.indices) normalisation = chosen(options, {});
  if (options.files.stream)
    return std::make_shared<const StreamedDataset>(samples, classes, normalisation);
  return load_samples(samples, classes, normalisation);
}

void expect_class_names(const std::vector<std::string>& class_names, const Dataset& data) {
  const auto names = std::ssize(class_names);
  if (names == 0 || names == data.classes()) return;
  throw InputError(fmt::format(
      "data.class_names has {} names, but the data have {} classes. Give one a class, or none.",
      names, data.classes()));
}

void expect_alike(const char* what, const Shape& train, const Shape& test,
                  const std::vector<std::string>& paths) {
  if (train == test) return;
  throw InputError(fmt::format(
      "the data in {} do not belong together: training {} are {}, test {} {}. Get fresh copies of "
      "the files, or name other data sets.",
      fmt::join(paths, ", "), what, to_string(train), what, to_string(test)));
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
  if (kind == TargetKind::classes || in_files(options.kind)) return;
  throw InputError(
      "these data have classes, not values to be fitted. Use data.kind = \"hdf5\", \"npy\" or "
      "\"csv\", or the program classify.");
}

void expect_one_order(const DataOptions& options) {
  const bool weights = !options.sample_weights.empty();
  if (weights && !in_files(options.kind)) {
    throw InputError(
        "data.sample_weights names an array in the files of the data, but these data are in none. "
        "Leave it out, or use data.balance_classes.");
  }
  if (weights && options.balance_classes) {
    throw InputError(
        "data.sample_weights and data.balance_classes both say how often samples are drawn. Leave "
        "out one of them.");
  }
  if ((weights || options.balance_classes) && options.shuffle.window > 0) {
    throw InputError(
        "data.shuffle_window keeps neighbours together, but samples that are drawn by weights have "
        "none. Leave out one or the other.");
  }
}

/// Of all samples of the training set.
std::vector<double> sample_weights_of(const DataFiles& files, const DataOptions& options,
                                      std::int64_t samples) {
  const auto array = files.weights(options);
  if (array->rows() < samples || array->row_elements() != 1) {
    throw InputError(fmt::format("{} cannot be the weights of {} samples: give each one number.",
                                 array->description(), samples));
  }
  std::vector<float> weights(static_cast<std::size_t>(samples));
  array->read(0, samples, std::span(weights));
  return {weights.begin(), weights.end()};
}

/// Holds part of the training set back, with its weights.
void hold_back(Datasets& sets, double fraction) {
  auto [train, validation] = split_for_validation(sets.train->size(), fraction);
  if (!sets.sample_weights.empty()) {
    std::vector<double> weights;
    for (const std::int64_t sample : train)
      weights.push_back(sets.sample_weights[static_cast<std::size_t>(sample)]);
    sets.sample_weights = std::move(weights);
  }
  sets.validation = std::make_shared<const Subset>(sets.train, std::move(validation));
  sets.train = std::make_shared<const Subset>(sets.train, std::move(train));
}

/// Weights that balance the classes of a training set.
std::vector<double> balancing_weights(const Dataset& train) {
  if (train.classes() == 0) {
    throw InputError(
        "data.balance_classes is of classes, but these targets are values. Leave it out.");
  }
  return weights_that_balance(train.labels(), train.classes());
}

}  // namespace

bool in_files(DataKind kind) noexcept {
  return kind == DataKind::hdf5 || kind == DataKind::npy || kind == DataKind::csv;
}

TargetKind target_kind(const DataOptions& options) {
  if (!in_files(options.kind)) return TargetKind::classes;
  const DataFiles files(options, Split::train);
  const bool classes = files.targets(files.completed(options))->integers();
  return classes ? TargetKind::classes : TargetKind::values;
}

Datasets make_datasets(const DataOptions& options, TargetKind kind, std::uint64_t seed) {
  expect_kind(options, kind);
  expect_one_order(options);
  Datasets sets;
  if (in_files(options.kind)) {
    const DataFiles files(options, Split::train);
    const DataOptions named = files.completed(options);
    const StoredSamples train = open_split(files, named, kind, Split::train);
    std::optional<StoredSamples> test;
    if (options.test_set) test = open_test_split(options, named, kind);
    if (options.files.indices) expect_as_they_are(options);
    const DataOptions found = measured(named, kind, train);
    sets = {.train = file_set(found, kind, train),
            .test = test ? file_set(found, kind, *test) : nullptr,
            .augmentation = {},
            .facts = facts_of(found, train)};
    if (!options.sample_weights.empty())
      sets.sample_weights = sample_weights_of(files, options, sets.train->size());
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
  expect_class_names(sets.facts.class_names, *sets.train);
  sets.augmentation =
      make_augmentation(options.augment, sets.train->sample_shape(), zero_input(sets.facts), seed);
  if (options.validation_fraction > 0) hold_back(sets, options.validation_fraction);
  if (options.balance_classes) sets.sample_weights = balancing_weights(*sets.train);
  return sets;
}

Datasets make_test_set(const DataOptions& options, TargetKind kind) {
  expect_kind(options, kind);
  if (!in_files(options.kind)) {
    const Normalisation normalisation = chosen(options, {});
    return {.train = {},
            .test = image_set(options, normalisation, Split::test),
            .augmentation = {},
            .facts = facts_of_images(options, normalisation)};
  }
  const DataFiles files(options, Split::test);
  const DataOptions named = files.completed(options);
  const StoredSamples test = open_split(files, named, kind, Split::test);
  return {.train = {},
          .test = file_set(named, kind, test),
          .augmentation = {},
          .facts = facts_of(named, test)};
}

DataOptions as_found(DataOptions options, const Datasets& sets) {
  options.mean = sets.facts.mean;
  options.std = sets.facts.std;
  options.class_names = sets.facts.class_names;
  options.files.columns = {sets.facts.feature_columns, sets.facts.target_columns};
  if (options.normalise_targets) {
    options.target_mean = sets.facts.target_mean;
    options.target_std = sets.facts.target_std;
  }
  if (in_files(options.kind)) options.files.classes = sets.train->classes();
  return options;
}

}  // namespace lockstep
