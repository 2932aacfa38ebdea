#include <fmt/format.h>

#include <optional>
#include <span>
#include <tuple>

#include <lockstep/base/error.hpp>
#include <lockstep/data/file_sets.hpp>
#include <lockstep/data/files/data_files.hpp>
#include <lockstep/data/stacked_dataset.hpp>
#include <lockstep/data/streamed_dataset.hpp>

namespace lockstep {
namespace {

void expect_as_they_are(const DataOptions& options) {
  const AugmentOptions& augment = options.augment;
  if (options.mean.empty() && options.std.empty() && augment.crop_padding == 0 && !augment.flip)
    return;
  throw InputError(
      "data.indices = true passes features on unscaled, but data.mean, data.std or an augmentation "
      "would change them. Leave out one or the other.");
}

/// Statistics of the training set, by which both sets are scaled.
void expect_one_unit(const StoredArray& train, const StoredArray& test) {
  if (train.bytes() == test.bytes()) return;
  const auto& [bytes, others] = train.bytes() ? std::tie(train, test) : std::tie(test, train);
  throw InputError(
      fmt::format("{} are bytes, which are divided by 255, but {} are not: store them likewise, so "
                  "that their units are the same.",
                  bytes.description(), others.description()));
}

void expect_one_sample_shape(const StoredArray& train, const StoredArray& test) {
  const auto of_sample = [](const StoredArray& array) {
    const Shape& shape = array.shape();
    return Shape(std::span(shape.begin() + 1, shape.end()));
  };
  if (of_sample(train) == of_sample(test)) return;
  throw InputError(
      fmt::format("{} has samples {}, but the training set, {}, has {}. Name data of one shape.",
                  test.description(), to_string(of_sample(test)), train.description(),
                  to_string(of_sample(train))));
}

/// "parameters" of "train/parameters".
std::string leaf_of(const std::string& name) { return name.substr(name.find_last_of('/') + 1); }

/// One half: its samples, and the model's further inputs.
struct Half {
  StoredSamples samples;
  std::vector<std::shared_ptr<const StoredArray>> others;
};

Half open_split(const DataFiles& files, const DataOptions& options, TargetKind kind, Split split) {
  Half half{pair_samples(files.features(options), files.targets(options), kind,
                         split == Split::train ? options.train_limit : options.test_limit),
            files.others(options)};
  for (const auto& other : half.others) {
    if (other->rows() == half.samples.features->rows()) continue;
    throw InputError(fmt::format(
        "{} samples in {}, but {} in {} (data.other_features). Name data sets with one row per "
        "sample.",
        half.samples.features->rows(), half.samples.description(), other->rows(),
        other->description()));
  }
  return half;
}

/// The test set of a run that also has a training set.
Half open_test_split(const DataOptions& options, const DataFiles& train, const DataOptions& named,
                     TargetKind kind) {
  try {
    const DataFiles files(options, Split::test);
    // A file of arrays may hold both sets.
    const FileOptions& o = options.files();
    if (options.kind.get_if<CsvOptions>() || o.train_features == o.test_features)
      expect_no_common_file(train.files(), files.files());
    return open_split(files, named, kind, Split::test);
  } catch (const InputError& error) {
    if (options.kind.get_if<CsvOptions>() || !options.files().test_path.empty()) throw;
    throw InputError(fmt::format(
        "{} (Data without a test set are read with data.test_set = false.)", error.what()));
  }
}

/// Divisor that turns stored features into inputs.
double divisor_of(const StoredArray& features) { return features.bytes() ? 255.0 : 1.0; }

/// Fills options left open, from the training set.
DataOptions measured(DataOptions options, TargetKind kind, const StoredSamples& train) {
  if (!options.files().indices && (options.mean.empty() || options.std.empty())) {
    const StoredArray& features = *train.features;
    const Normalisation found =
        options.normalisation(measure_normalisation(features, train.size, divisor_of(features)));
    options.mean = found.mean;
    options.std = found.std;
  }
  if (kind == TargetKind::classes) {
    if (options.files().classes == 0) options.files().classes = count_classes(train);
  } else if (options.normalise_targets &&
             (options.target_mean.empty() || options.target_std.empty())) {
    const Normalisation found = measure_normalisation(*train.targets, train.size, 1.0);
    if (options.target_mean.empty()) options.target_mean = found.mean;
    if (options.target_std.empty()) options.target_std = found.std;
  }
  return options;
}

/// Facts known from the options, for data like `samples`.
DataFacts facts_of(const DataOptions& options, const StoredSamples& samples) {
  const Columns& columns = options.files().columns;
  const bool one_target = columns.targets.size() == 1;
  DataFacts facts{
      .input = leaf_of(options.files().train_features),
      .target = one_target ? columns.targets[0] : leaf_of(options.files().train_targets),
      .divisor = options.files().indices ? 1.0 : divisor_of(*samples.features),
      .mean = options.mean,
      .std = options.std,
      .class_names = options.class_names,
      .feature_columns = columns.features,
      .target_columns = columns.targets};
  for (const std::string& name : options.files().other_features)
    facts.other_inputs.push_back(leaf_of(name));
  if (options.normalise_targets) {
    facts.target_mean = options.target_mean;
    facts.target_std = options.target_std;
  }
  return facts;
}

std::shared_ptr<const Dataset> opened(const DataOptions& options, const StoredSamples& samples,
                                      std::int64_t classes,
                                      const std::optional<Normalisation>& normalisation) {
  if (options.files().stream)
    return std::make_shared<const StreamedDataset>(samples, classes, normalisation);
  return load_samples(samples, classes, normalisation);
}

std::shared_ptr<const Dataset> file_set(const DataOptions& options, TargetKind kind,
                                        const Half& half) {
  const std::int64_t classes = kind == TargetKind::classes ? options.files().classes : 0;
  if (classes > 0) expect_classes(half.samples, classes);
  std::optional<Normalisation> normalisation;
  if (!options.files().indices) normalisation = options.normalisation({});
  auto first = opened(options, half.samples, classes, normalisation);
  if (half.others.empty()) return first;
  std::vector<std::shared_ptr<const Dataset>> others;
  for (const auto& array : half.others) {
    std::optional<Normalisation> as_it_is;
    if (!array->integers()) as_it_is = Normalisation{};
    others.push_back(opened(options, {array, nullptr, half.samples.size}, 0, as_it_is));
  }
  return std::make_shared<const StackedDataset>(std::move(first), std::move(others));
}

/// Weights of the training samples in use. The array also has one for each unused sample.
std::vector<double> sample_weights_of(const DataFiles& files, const DataOptions& options,
                                      const StoredSamples& train) {
  const auto array = files.weights(options);
  const std::int64_t all = train.features->rows(), samples = train.size;
  if (array->rows() != all || array->row_elements() != 1) {
    throw InputError(fmt::format("{} cannot be the weights of {} samples: give each one number.",
                                 array->description(), all));
  }
  std::vector<float> weights(static_cast<std::size_t>(samples));
  array->read(0, samples, std::span(weights));
  return {weights.begin(), weights.end()};
}

Datasets file_sets(const DataOptions& options, TargetKind kind) {
  const DataFiles files(options, Split::train);
  const DataOptions named = files.completed(options, kind);
  const Half train = open_split(files, named, kind, Split::train);
  std::optional<Half> test;
  if (options.test_set) {
    test = open_test_split(options, files, named, kind);
    expect_one_sample_shape(*train.samples.features, *test->samples.features);
  }
  if (options.files().indices) {
    expect_as_they_are(options);
  } else if (test) {
    expect_one_unit(*train.samples.features, *test->samples.features);
  }
  const DataOptions found = measured(named, kind, train.samples);
  Datasets sets{.train = file_set(found, kind, train),
                .test = test ? file_set(found, kind, *test) : nullptr,
                .augmentation = {},
                .facts = facts_of(found, train.samples)};
  if (!options.files().sample_weights.empty())
    sets.sample_weights = sample_weights_of(files, options, train.samples);
  return sets;
}

Datasets file_test_set(const DataOptions& options, TargetKind kind) {
  const DataFiles files(options, Split::test);
  const DataOptions named = files.completed(options, kind);
  const Half test = open_split(files, named, kind, Split::test);
  return {.train = {},
          .test = file_set(named, kind, test),
          .augmentation = {},
          .facts = facts_of(named, test.samples)};
}

// Keys common to several formats.

void declare_classes(DeckTable& table, FileOptions& files) {
  table.key("classes", files.classes,
            {.doc = "number of classes; 0: largest training label + 1", .min = 0.0});
}

void declare_indices(DeckTable& table, FileOptions& files) {
  table.key("indices", files.indices,
            {.doc = "inputs are integer indices for an Embedding, not normalised"});
}

void declare_sample_weights(DeckTable& table, FileOptions& files, std::string_view doc) {
  table.key("sample_weights", files.sample_weights, {.doc = doc});
}

void declare_arrays(DeckTable& table, FileOptions& files, std::string_view features_doc) {
  table.key("train_features", files.train_features, {.doc = features_doc});
  table.key("train_targets", files.train_targets, {.doc = "classes [N] or values [N, ...]"});
  table.key("test_features", files.test_features, {.doc = "the same of the test set"});
  table.key("test_targets", files.test_targets, {.doc = "the same of the test set"});
  table.key("other_features", files.other_features,
            {.doc = "own tasks only: further inputs beside the features, not normalised; "
                    "[\"mask\"] is train/mask and test/mask"});
  declare_sample_weights(table, files,
                         "array [N] of weights for drawing training samples with replacement; "
                         "empty: each once an epoch");
  declare_test_path(table, files.test_path);
  declare_classes(table, files);
  declare_indices(table, files);
  table.key("stream", files.stream,
            {.doc = "read samples when needed: for data larger than memory"});
}

}  // namespace

void declare(DeckTable& table, Hdf5Options& options) {
  declare_arrays(table, options.files, "HDF5 data set of inputs [N, ...]");
  table.key("allow_external", options.files.allow_external,
            {.doc = "allow virtual data sets, external raw files and links to other files"});
  table.key("cache_mib", options.files.cache_mib,
            {.doc = "cache of decoded chunks, each data set",
             .unit = "MiB",
             .min = 1.0,
             .max = 1048576.0});
}

void declare(DeckTable& table, NpyOptions& options) {
  declare_arrays(table, options.files,
                 "file of inputs [N, ...] in each folder, train/features.npy");
}

void declare(DeckTable& table, CsvOptions& options) {
  FileOptions& files = options.files;
  table.choice("header", files.header,
               {{"auto", CsvHeader::automatic}, {"true", CsvHeader::yes}, {"false", CsvHeader::no}},
               "whether the first line names the columns; without names: column_1, ...; auto: yes, "
               "and a line of numbers is refused");
  table.key("feature_columns", files.columns.features,
            {.doc = "input columns; empty: all but the targets"});
  table.key(
      "target_columns", files.columns.targets,
      {.doc = "target columns: classes, as numbers or words, or values; empty: the last column"});
  declare_sample_weights(
      table, files,
      "column of weights for drawing training samples with replacement; empty: each once an epoch");
  declare_test_path(table, files.test_path);
  declare_classes(table, files);
  declare_indices(table, files);
}

template <FileFormat format>
Datasets StoredData<format>::make(const DataOptions& all, TargetKind kind, Sets wanted) {
  expect_no_tokens(kind);
  return wanted == Sets::test ? file_test_set(all, kind) : file_sets(all, kind);
}

template <FileFormat format>
TargetKind StoredData<format>::targets(const DataOptions& all) {
  const DataFiles files(all, Split::train);
  const bool classes = files.targets(files.completed(all, TargetKind::classes))->integers();
  return classes ? TargetKind::classes : TargetKind::values;
}

template <FileFormat format>
void StoredData<format>::note(const Datasets& found) {
  files.columns = {found.facts.feature_columns, found.facts.target_columns};
  files.classes = found.train->classes();
}

template struct StoredData<FileFormat::hdf5>;
template struct StoredData<FileFormat::npy>;
template struct StoredData<FileFormat::csv>;

}  // namespace lockstep
