#include <lockstep/data/data_options.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/data/batches/weighted_draws.hpp>
#include <lockstep/data/subset.hpp>

namespace lockstep {
namespace {

void expect_class_names(const std::vector<std::string>& class_names, const Dataset& data) {
  const auto names = std::ssize(class_names);
  if (names == 0 || names == data.classes()) return;
  throw InputError(fmt::format(
      "data.class_names has {} names, but the data have {} classes. Give one per class, or none.",
      names, data.classes()));
}

void expect_alike(const char* what, const Shape& train, const Shape& test,
                  const std::vector<std::string>& paths) {
  if (train == test) return;
  throw InputError(
      fmt::format("the data in {} do not match: training {} are {}, test {} {}. Get fresh copies "
                  "of the files, or name other data sets.",
                  fmt::join(paths, ", "), what, to_string(train), what, to_string(test)));
}

/// The value of a black pixel (0) after normalisation: one, or one per channel.
std::vector<float> zero_input(const DataFacts& facts) {
  const Normalisation none;
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

/// For users' kinds; Lockstep's own check before they load.
void expect_targets(const Dataset& data, TargetKind kind) {
  if ((kind == TargetKind::values) == (data.classes() == 0)) return;
  throw InputError(kind == TargetKind::values
                       ? "these data have classes, not values to fit. Use the program classify."
                       : "these data have values to fit, not classes. Use the program regress.");
}

void expect_one_order(const DataOptions& options) {
  const auto* files = options.in_files();
  const bool weights = files && !files->sample_weights.empty();
  if (weights && options.balance_classes) {
    throw InputError(
        "data.sample_weights and data.balance_classes both set how often samples are drawn. Leave "
        "out one of them.");
  }
  if ((weights || options.balance_classes) && options.shuffle.window > 0) {
    throw InputError(
        "data.shuffle_window keeps neighbours together, but weighted draws have no neighbours. "
        "Leave out one or the other.");
  }
}

/// Holds back part of the training set, with its weights.
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

/// An augmentation moves contents of the inputs but not of target fields.
void expect_targets_stay(const AugmentOptions& augment, const Dataset& train) {
  if (train.target_shape().dims() < 2 || (!augment.flip && augment.crop_padding == 0)) return;
  throw InputError(
      fmt::format("data.augment_flip and data.augment_crop_padding move only the inputs, but the "
                  "targets, fields of shape {}, would have to move with them. Leave them out.",
                  to_string(train.target_shape())));
}

/// Weights that balance the classes of a training set.
std::vector<double> balancing_weights(const Dataset& train) {
  if (train.classes() == 0 || train.target_shape().dims() > 0) {
    throw InputError(
        "data.balance_classes needs one class per sample, but these data have none. Leave it out.");
  }
  return weights_that_balance(train.labels(), train.classes());
}

}  // namespace

DataKinds& data_kinds() {
  // In the order of the reference. The first is the default.
  static DataKinds kinds([](DataKinds& own) {
    add_data<FashionMnistOptions>(own, "fashion_mnist",
                                  "the four IDX files of Fashion-MNIST, or others of that form");
    add_data<SyntheticOptions>(own, "synthetic", "images that are generated");
    add_data<ImageFolderOptions>(own, "image_folder", "PNG and JPEG files, a folder a class");
    add_data<Hdf5Options>(own, "hdf5", "arrays in HDF5 files");
    add_data<NpyOptions>(own, "npy", "arrays in .npy files");
    add_data<CsvOptions>(own, "csv", "tables in CSV files");
    add_data<TokenOptions>(own, "tokens", "token files of a language model");
  });
  return kinds;
}

void expect_no_tokens(TargetKind kind) {
  if (kind != TargetKind::tokens) return;
  throw InputError(
      "a language model is trained on tokens: use data.kind = \"tokens\" and data.path, or a "
      "program other than gpt.");
}

const FileOptions* DataOptions::in_files() const noexcept {
  if (const auto* hdf5 = kind.get_if<Hdf5Options>()) return &hdf5->files;
  if (const auto* npy = kind.get_if<NpyOptions>()) return &npy->files;
  if (const auto* csv = kind.get_if<CsvOptions>()) return &csv->files;
  return nullptr;
}

const FileOptions& DataOptions::files() const {
  if (const auto* files = in_files()) return *files;
  throw Error(fmt::format("data.kind = \"{}\" is not a kind of number files", kind.name()));
}

FileOptions& DataOptions::files() { return const_cast<FileOptions&>(std::as_const(*this).files()); }

Normalisation DataOptions::normalisation(Normalisation otherwise) const {
  if (!mean.empty()) otherwise.mean = mean;
  if (!std.empty()) otherwise.std = std;
  return otherwise;
}

TargetKind target_kind(const DataOptions& options) { return options.kind.make()->targets(options); }

Datasets make_datasets(const DataOptions& options, TargetKind kind, std::uint64_t seed) {
  expect_one_order(options);
  DataOptions seeded = options;
  seeded.augment.seed = seed;
  Datasets sets = options.kind.make()->make(seeded, kind, Sets::train_and_test);
  expect_targets(*sets.train, kind);
  if (sets.test) {
    expect_alike("samples", sets.train->sample_shape(), sets.test->sample_shape(), options.path);
    expect_alike("targets", sets.train->target_shape(), sets.test->target_shape(), options.path);
    for (std::size_t k = 0; k < sets.train->others().size(); ++k) {
      expect_alike("data.other_features", sets.train->others()[k]->sample_shape(),
                   sets.test->others()[k]->sample_shape(), options.path);
    }
  }
  if (kind != TargetKind::tokens) {
    expect_class_names(sets.facts.class_names, *sets.train);
    sets.augmentation = make_augmentation(options.augment, sets.train->sample_shape(),
                                          zero_input(sets.facts), seed);
  }
  if (kind == TargetKind::values) expect_targets_stay(options.augment, *sets.train);
  if (options.validation_fraction > 0) hold_back(sets, options.validation_fraction);
  if (options.balance_classes) sets.sample_weights = balancing_weights(*sets.train);
  return sets;
}

Datasets make_test_set(const DataOptions& options, TargetKind kind) {
  Datasets sets = options.kind.make()->make(options, kind, Sets::test);
  sets.train = nullptr;
  return sets;
}

DataOptions as_found(DataOptions options, const Datasets& sets) {
  const DataFacts& facts = sets.facts;
  options.kind = options.kind.make()->as_found(sets);
  options.class_names = facts.class_names;
  if (!facts.mean.empty()) options.mean = facts.mean;
  if (!facts.std.empty()) options.std = facts.std;
  if (options.normalise_targets) {
    options.target_mean = facts.target_mean;
    options.target_std = facts.target_std;
  }
  return options;
}

}  // namespace lockstep
